//! `./run.sh compat`: Linux's own tests of memory management, as programs of both kernels on the
//! same machine, and in which tests Quire differs.
mod boot;
mod list;
mod make;
mod record;
mod results;
mod small;
mod table;

pub use small::small_set;

use crate::args::{CompatArgs, Side};
use crate::linux::{self, Tests};
use crate::progress::Bar;
use crate::{build, guest, install, workers, workspace};
use anyhow::{Context, Result};
use boot::Kernels;
use record::Record;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Runs them and prints. That Quire differs is a result, not a failure. After ctrl-c, what is known
/// until then is printed.
pub fn compat(args: &CompatArgs) -> Result<u8> {
    let json = writable("--json", args.json.as_deref())?;
    let markdown = writable("--markdown", args.markdown.as_deref())?;
    install::ensure_qemu(args.machines.arch.arches(), args.install.no_install)?;
    let tests = linux::tests(args.renew)?;
    let kernels = kernels(args, &tests)?;
    let jobs = jobs(&kernels, args)?;
    let file = json.map(File::create).transpose().context("--json")?;
    let bar = Bar::new("running Linux's tests", jobs.len() as u64);
    let record = Arc::new(Record::new(file, bar));
    let last = Arc::clone(&record);
    guest::before_the_end(move || print!("{}", last.text()));
    run(&jobs, args, &record)?;
    print!("{}", record.text());
    if args.only.is_empty() {
        print!("{}", list::left_out());
    }
    if let Some(path) = markdown {
        let page = page(&tests, &kernels, &record);
        workspace::replace(&path, |new| Ok(fs::write(new, page)?))?;
    }
    Ok(0)
}

fn writable(option: &str, path: Option<&Path>) -> Result<Option<PathBuf>> {
    let path = path.map(|path| workspace::writable(option, path));
    Ok(path.transpose()?)
}

fn kernels(args: &CompatArgs, tests: &Tests) -> Result<Vec<Kernels>> {
    let arches = args.machines.arch.arches();
    let linux = linux::kernels(&args.linux, arches, args.renew)?;
    let kernels = linux.into_iter().map(|linux| {
        Ok(Kernels {
            tests: make::build(tests, linux.arch)?,
            quire: build::build(linux.arch, false)?,
            linux,
        })
    });
    kernels.collect()
}

/// A boot.
struct Job<'a> {
    kernels: &'a Kernels,
    program: &'a str,
    side: Side,
}

fn jobs<'a>(kernels: &'a [Kernels], args: &CompatArgs) -> Result<Vec<Job<'a>>> {
    let mut jobs = Vec::new();
    for kernels in kernels {
        for program in list::chosen(&kernels.tests.names, &args.only)? {
            jobs.extend(Side::ALL.map(|side| Job {
                kernels,
                program,
                side,
            }));
        }
    }
    Ok(jobs)
}

fn run(jobs: &[Job<'_>], args: &CompatArgs, record: &Record) -> Result<()> {
    let limit = Duration::from_secs(args.timeout);
    let ran = workers::map(jobs, workers::of_machines(args.jobs), |job| {
        let ran = job.kernels.run(job.side, job.program, limit)?;
        record.add(job, ran)
    });
    ran.into_iter().collect()
}

/// The table with what it was made with.
fn page(tests: &Tests, kernels: &[Kernels], record: &Record) -> String {
    let linux = kernels.iter().map(|kernels| {
        let kernel = &kernels.linux;
        format!("Linux on {} is {}.\n", kernel.arch, kernel.origin)
    });
    format!(
        "The tests are those of {}, built static.\n{}{}\n{}",
        tests.origin,
        linux.collect::<String>(),
        list::left_out(),
        record.tables(table::markdown)
    )
}
