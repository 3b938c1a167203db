//! `./run.sh conflicts`: for each pair of operations on memory, the cache lines that two CPUs
//! contend for when one does the first and the other the second, and whose they are.
mod boot;
mod cell;
mod names;
mod results;
mod table;

use anyhow::{Context, Result, bail};
use boot::Machines;
pub use cell::{Cell, Found, Line};
use results::Results;
use std::fs::File;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use tools::args::ConflictsArgs;
use tools::host::arch::Arch;
use tools::host::errors::UsageError;
use tools::host::progress::Bar;
use tools::host::{install, words, workspace};
use tools::machine::build::{self, Built};
use tools::machine::qemu::plugin;
use tools::machine::{guest, linux};

/// The operations, in the order of rows and columns: that of the program `conflicts`.
pub const OPS: [&str; 15] = [
    "read", "write", "cow", "reuse", "futex", "getpid", "populate", "mprotect", "mmap", "brk",
    "fork", "dontneed", "mremap", "munmap", "exit",
];

/// Where the second operation is, seen from the first; with what the table says of it.
pub const PLACES: [(&str, &str); 5] = [
    ("other-2m", "other 2 MiB of the same area"),
    ("other-area", "another area of the same space"),
    ("other-space", "another space"),
    ("folio", "another page of the same folio"),
    ("page", "the same page"),
];

/// Measures and prints; the exit status is 1 when a cell failed, and 130 after ctrl-c, which prints
/// what was measured until then.
pub fn conflicts(args: &ConflictsArgs) -> Result<u8> {
    let arches = args.machines.arch.arches();
    let programs = programs(&args.op, &args.place)?;
    let json = args.json.as_deref();
    let json = json
        .map(|path| workspace::writable("--json", path))
        .transpose()?;
    install::ensure_qemu(arches, args.install.no_install)?;
    for arch in arches {
        if let Some(why) = plugin::missing(*arch)? {
            bail!("it needs a plugin of QEMU: {why}");
        }
    }
    let linux = match args.linux {
        true => linux::of_distribution(arches, false)?,
        false => Vec::new(),
    };
    let built = arches.iter().map(|arch| build::build(*arch, false));
    let built = built.collect::<Result<Vec<Built>>>()?;
    let file = json.map(File::create).transpose().context("--json")?;
    let steps = programs.len() * arches.len() * (1 + usize::from(args.linux)) * pairs(&args.op);
    let results = Arc::new(Results::new(file, Bar::new("measuring", steps as u64)));
    let last = Arc::clone(&results);
    guest::before_the_end(move || print!("{}", last.interrupt()));
    let mut jobs = Vec::new();
    for program in &programs {
        for (arch, built) in arches.iter().zip(&built) {
            let of_arch = linux.iter().filter(|kernel| kernel.arch == *arch);
            for linux in [None].into_iter().chain(of_arch.map(Some)) {
                let machines = Machines {
                    arch: *arch,
                    built,
                    linux,
                };
                jobs.push((machines, program.as_str()));
            }
        }
    }
    boot_all(&jobs, &results)?;
    let (table, failed) = results.finish()?;
    print!("{table}");
    Ok(u8::from(failed > 0))
}

/// Boots one machine for each job, as many at the same time as this computer has CPUs, four at
/// most: no figure depends on it.
fn boot_all(jobs: &[(Machines<'_>, &str)], results: &Results) -> Result<()> {
    let cpus = thread::available_parallelism().map_or(1, NonZero::get);
    let next = AtomicUsize::new(0);
    let work = || -> Result<()> {
        while let Some((machines, program)) = jobs.get(next.fetch_add(1, Relaxed)) {
            boot::run(machines, program, results)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..cpus.min(4)).map(|_| scope.spawn(work)).collect();
        let ends = workers.into_iter().map(|worker| {
            worker
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        ends.collect::<Vec<_>>().into_iter().collect()
    })
}

/// For tests: the cells of Quire for these operations at these places.
pub fn with_built(arch: Arch, built: &Built, ops: &[&str], places: &[&str]) -> Result<Vec<Cell>> {
    let owned = |names: &[&str]| -> Vec<String> { names.iter().map(ToString::to_string).collect() };
    let results = Results::new(None, Bar::hidden(0));
    for program in programs(&owned(ops), &owned(places))? {
        let machines = Machines {
            arch,
            built,
            linux: None,
        };
        boot::run(&machines, &program, &results)?;
    }
    Ok(results.cells())
}

/// The program's words, for each place: what a boot has done before moves no figure of another
/// place.
fn programs(ops: &[String], places: &[String]) -> Result<Vec<String>, UsageError> {
    words::check("--op", ops.iter().map(String::as_str), &OPS)?;
    let known = PLACES.map(|(name, _)| name);
    words::check("--place", places.iter().map(String::as_str), &known)?;
    let ops = match ops {
        [] => String::new(),
        ops => format!(" --op {}", ops.join(",")),
    };
    let chosen = |place: &&str| places.is_empty() || places.iter().any(|one| one == place);
    let chosen = known.into_iter().filter(chosen);
    Ok(chosen
        .map(|place| format!("conflicts{ops} --place {place}"))
        .collect())
}

/// How many pairs the program makes of these operations at each place.
fn pairs(ops: &[String]) -> usize {
    match ops.len() {
        1 => OPS.len(),
        len => {
            let all = if len == 0 { OPS.len() } else { len };
            all * (all + 1) / 2
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_for_each_place() {
        let owned = |name: &str| vec![name.to_owned()];
        let all = programs(&[], &[]).unwrap();
        assert_eq!(all.len(), PLACES.len());
        assert_eq!(all[0], "conflicts --place other-2m");
        assert_eq!((pairs(&[]), pairs(&owned("read"))), (120, 15));
        let one = programs(&owned("read"), &owned("page")).unwrap();
        assert_eq!(one, ["conflicts --op read --place page"]);
        let wrong = programs(&owned("raed"), &[]).unwrap_err();
        assert!(wrong.0.contains("read"), "{wrong}");
        assert!(programs(&[], &owned("other")).is_err());
    }
}
