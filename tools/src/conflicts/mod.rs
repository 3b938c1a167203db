//! `./run.sh conflicts`: for each pair of operations on memory, the cache lines that two CPUs
//! contend for when one does the first and the other the second, and whose they are.
mod boot;
mod cell;
mod names;
mod results;
mod table;

use crate::arch::Arch;
use crate::args::{ConflictsArgs, Side};
use crate::build::{self, Built};
use crate::progress::Bar;
use crate::qemu::plugin;
use crate::{UsageError, guest, install, linux, words, workspace};
use anyhow::{Context, Result, bail};
use boot::Machines;
pub use cell::{Cell, Found};
use results::Results;
use std::fs::File;
use std::sync::Arc;

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
    let program = program(&args.op, &args.place)?;
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
    let results = Arc::new(Results::new(file, Bar::new("measuring", 0)));
    let last = Arc::clone(&results);
    guest::before_the_end(move || print!("{}", last.interrupt()));
    for (arch, built) in arches.iter().zip(&built) {
        for side in Side::ALL {
            let kernel = linux.iter().find(|kernel| kernel.arch == *arch);
            if side == Side::Linux && kernel.is_none() {
                continue;
            }
            let machines = Machines {
                arch: *arch,
                built,
                linux: kernel.filter(|_| side == Side::Linux),
            };
            boot::run(&machines, &program, &results)?;
        }
    }
    let (table, failed) = results.finish()?;
    print!("{table}");
    Ok(u8::from(failed > 0))
}

/// For tests: the cells of Quire for these operations at these places.
pub fn with_built(arch: Arch, built: &Built, ops: &[&str], places: &[&str]) -> Result<Vec<Cell>> {
    let owned = |names: &[&str]| -> Vec<String> { names.iter().map(ToString::to_string).collect() };
    let program = program(&owned(ops), &owned(places))?;
    let results = Results::new(None, Bar::hidden(0));
    let machines = Machines {
        arch,
        built,
        linux: None,
    };
    boot::run(&machines, &program, &results)?;
    Ok(results.cells())
}

/// The program's words.
fn program(ops: &[String], places: &[String]) -> Result<String, UsageError> {
    words::check("--op", ops.iter().map(String::as_str), &OPS)?;
    let known = PLACES.map(|(name, _)| name);
    words::check("--place", places.iter().map(String::as_str), &known)?;
    let mut program = "conflicts".to_owned();
    for (option, names) in [("--op", ops), ("--place", places)] {
        if !names.is_empty() {
            program += &format!(" {option} {}", names.join(","));
        }
    }
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_program() {
        let owned = |name: &str| vec![name.to_owned()];
        assert_eq!(program(&[], &[]).unwrap(), "conflicts");
        let program = |op, place| super::program(&owned(op), &owned(place));
        assert_eq!(
            program("read", "page").unwrap(),
            "conflicts --op read --place page"
        );
        assert!(program("raed", "page").unwrap_err().0.contains("read"));
        assert!(program("read", "other").is_err());
    }
}
