//! `./run.sh conflicts`: for each pair of operations on memory, the cache lines that two CPUs
//! contend for when one does the first and the other the second, and whose they are.
mod boot;
mod cell;
mod names;
mod table;

use crate::counting::Counting;
use crate::kernels::{self, Kernels};
use crate::store::Store;
use anyhow::{Context, Result};
pub use cell::{Cell, Found};
use counts::args::Lines;
use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Arc;
use tools::args::{ConflictsArgs, Side};
use tools::host::arch::Arch;
use tools::host::errors::UsageError;
use tools::host::progress::Bar;
use tools::host::{install, words, workers, workspace};
use tools::machine::build::Built;
use tools::machine::linux;

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
    let json = workspace::writable("--json", args.json.as_deref())?;
    install::ensure_qemu(arches, args.install.no_install)?;
    let kernels = Kernels {
        counting: Some(Counting::new("it needs", arches, Lines::Each, None)?),
        linux: match args.linux {
            true => linux::of_distribution(arches, false)?,
            false => Vec::new(),
        },
        built: kernels::built(arches)?,
        words: String::new(),
        swap: BTreeMap::new(),
    };
    let mut jobs = Vec::new();
    for program in &programs {
        for &arch in arches {
            let linux = kernels.linux(arch).map(|_| Side::Linux);
            let sides = [Side::Quire].into_iter().chain(linux);
            jobs.extend(sides.map(|side| (arch, side, program.as_str())));
        }
    }
    let file = json.map(File::create).transpose().context("--json")?;
    let steps = jobs.len() * pairs(&args.op);
    let bar = Bar::new("measuring", steps as u64);
    let store = Arc::new(Store::new(Vec::new(), file, bar));
    store.print_on_a_signal(|cells| table::render(cells));
    let boot = |job: &boot::Job<'_>| boot::run(&kernels, *job, &store);
    let ran = workers::map(&jobs, workers::of_machines(None), boot);
    ran.into_iter().collect::<Result<()>>()?;
    print!("{}", store.finish(|cells| table::render(cells))?);
    let failed = |cell: &Cell| matches!(cell.found, Found::Failed(_));
    Ok(u8::from(store.with(|cells| cells.iter().any(failed))))
}

/// For tests: the cells of Quire for these operations at these places.
pub fn with_built(arch: Arch, built: &Built, ops: &[&str], places: &[&str]) -> Result<Vec<Cell>> {
    let owned = |names: &[&str]| -> Vec<String> { names.iter().map(ToString::to_string).collect() };
    let kernels = Kernels {
        built: [(arch, built.clone())].into(),
        linux: Vec::new(),
        counting: Some(Counting::new("it needs", &[arch], Lines::Each, None)?),
        words: String::new(),
        swap: BTreeMap::new(),
    };
    let store = Store::new(Vec::new(), None, Bar::hidden(0));
    for program in programs(&owned(ops), &owned(places))? {
        boot::run(&kernels, (arch, Side::Quire, &program), &store)?;
    }
    Ok(store.with(std::mem::take))
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
