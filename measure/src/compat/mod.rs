//! `./run.sh compat`: Linux's own tests of memory management and of ptrace, as programs of both
//! kernels on the same machine, and in which tests Quire differs; or tests of the Linux Test
//! Project.
mod boot;
mod list;
mod ltp;
mod make;
mod results;
mod small;
mod suite;
mod table;

pub use small::small_set;

use crate::store::Store;
use anyhow::{Context, Result};
use boot::Kernels;
use results::{Ran, Runs};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use suite::{Program, Suite};
use tools::args::{CompatArgs, Side};
use tools::host::arch::Arch;
use tools::host::progress::Bar;
use tools::host::{install, workers, workspace};
use tools::machine::{build, linux};

/// Runs them and prints. That Quire differs is a result, not a failure. After ctrl-c, what is known
/// until then is printed.
pub fn compat(args: &CompatArgs) -> Result<u8> {
    let json = workspace::writable("--json", args.json.as_deref())?;
    let markdown = workspace::writable("--markdown", args.markdown.as_deref())?;
    install::ensure_qemu(args.machines.arch.arches(), args.install.no_install)?;
    let tests = match &args.ltp {
        None => Tests::Linux(linux::tests(args.renew)?),
        Some(tree) => Tests::Ltp(workspace::user_path(tree)),
    };
    let kernels = kernels(args, &tests)?;
    let jobs = jobs(&kernels, args)?;
    let file = json.map(File::create).transpose().context("--json")?;
    let bar = Bar::new("running Linux's tests", jobs.len() as u64);
    let store = Arc::new(Store::new(Runs::new(), file, bar));
    store.print_on_a_signal(|runs| table::all(runs, table::text));
    run(&jobs, args, &store)?;
    print!("{}", store.finish(|runs| table::all(runs, table::text))?);
    if args.only.is_empty() {
        print!("{}", tests.left_out());
    }
    if let Some(path) = markdown {
        let tables = store.with(|runs| table::all(runs, table::markdown));
        let page = page(&tests, &kernels, &tables);
        workspace::replace(&path, |new| Ok(fs::write(new, page)?))?;
    }
    Ok(0)
}

/// Where tests come from.
enum Tests {
    /// Linux's source.
    Linux(linux::Tests),
    /// A tree of LTP.
    Ltp(PathBuf),
}

impl Tests {
    /// Those for a machine; none if LTP was built for another one.
    fn suite(&self, arch: Arch) -> Result<Suite> {
        match self {
            Tests::Linux(tests) => make::build(tests, arch),
            Tests::Ltp(tree) => ltp::suite(tree, arch),
        }
    }
    /// Whose they are.
    fn origin(&self) -> &str {
        match self {
            Tests::Linux(tests) => &tests.origin,
            Tests::Ltp(_) => "the Linux Test Project",
        }
    }
    /// Which are not run, and why.
    fn left_out(&self) -> String {
        match self {
            Tests::Linux(_) => list::left_out(),
            Tests::Ltp(_) => String::new(),
        }
    }
}

/// The kernels of the machines that there are tests for.
fn kernels(args: &CompatArgs, tests: &Tests) -> Result<Vec<Kernels>> {
    let arches = args.machines.arch.arches().iter();
    let suites = arches.map(|arch| tests.suite(*arch));
    let mut suites = suites.collect::<Result<Vec<_>>>()?;
    suites.retain(|suite| !suite.programs.is_empty());
    if let Tests::Ltp(tree) = tests
        && suites.is_empty()
    {
        return Err(ltp::how_to_build(tree).into());
    }
    let arches: Vec<Arch> = suites.iter().map(|suite| suite.arch).collect();
    let linux = linux::kernels(&args.linux, &arches, args.renew)?;
    let kernels = linux.into_iter().zip(suites).map(|(linux, tests)| {
        Ok(Kernels {
            tests,
            quire: build::build(linux.arch, false)?,
            linux,
        })
    });
    kernels.collect()
}

/// A boot.
struct Job<'a> {
    kernels: &'a Kernels,
    program: &'a Program,
    side: Side,
}

fn jobs<'a>(kernels: &'a [Kernels], args: &CompatArgs) -> Result<Vec<Job<'a>>> {
    let mut jobs = Vec::new();
    for kernels in kernels {
        for program in list::chosen(&kernels.tests.programs, &args.only)? {
            jobs.extend(Side::ALL.map(|side| Job {
                kernels,
                program,
                side,
            }));
        }
    }
    Ok(jobs)
}

fn run(jobs: &[Job<'_>], args: &CompatArgs, store: &Store<Runs>) -> Result<()> {
    let limit = Duration::from_secs(args.timeout);
    let ran = workers::map(jobs, workers::of_machines(args.jobs), |job| {
        let tests = job.program.files.len() as u32;
        let ran = job.kernels.run(job.side, job.program, limit * tests)?;
        store.step(1);
        let key = (job.kernels.linux.arch, job.program.name.clone());
        store.add(&line(job, &ran), |runs| {
            runs.entry(key).or_default().insert(job.side, ran);
        });
        Ok(())
    });
    ran.into_iter().collect()
}

/// The result of a boot as a line.
fn line(job: &Job<'_>, ran: &Ran) -> Value {
    let tests = ran.tests.iter();
    let tests: Vec<Value> = tests.map(|(name, how)| json!([name, how.name()])).collect();
    json!({
        "arch": job.kernels.linux.arch.name(),
        "kernel": job.side.name(),
        "program": job.program.name,
        "cut": ran.cut,
        "tests": tests,
    })
}

/// The tables with what they were made with.
fn page(tests: &Tests, kernels: &[Kernels], tables: &str) -> String {
    let linux = kernels.iter().map(|kernels| {
        let kernel = &kernels.linux;
        format!("Linux on {} is {}.\n", kernel.arch, kernel.origin)
    });
    format!(
        "The tests are those of {}, built static.\n{}{}\n{tables}",
        tests.origin(),
        linux.collect::<String>(),
        tests.left_out()
    )
}
