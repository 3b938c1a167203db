//! The levels of `./run.sh test`: which cases the default has, and which of the slices of the full
//! level each other one is in. What a row says of its cases is a table of `docs/testing.md`.
use ktest::glob;
use std::collections::BTreeSet;

/// Parts of the full level, of which CI runs one beside the default.
pub const SLICES: u32 = 6;

/// The slice of a number that each landing raises.
pub fn slice(number: u32) -> u32 {
    1 + (number + SLICES - 1) % SLICES
}

/// Where a case is run. All are in the full level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// In each run.
    Default,
    /// In this slice.
    Slice(u32),
    /// In the slice that is chosen by its name.
    Spread,
    /// As `Spread`; the default has as many as it takes for each setting of each switch to be
    /// there, chosen by the seed.
    Settings,
}
use Level::{Default, Settings, Slice, Spread};

/// Cases that are alike. Of several rows that match a name the first one counts.
pub struct Row {
    /// A pattern of their names.
    pub names: &'static str,
    /// Where they are run.
    pub level: Level,
    /// Files and folders that they read: a change there brings them into the default.
    pub reads: &'static [&'static str],
    /// What a failure tells.
    pub finds: &'static str,
}

const fn row(names: &'static str, level: Level, finds: &'static str) -> Row {
    let reads = &[];
    Row {
        names,
        level,
        reads,
        finds,
    }
}

const fn read(
    names: &'static str,
    level: Level,
    reads: &'static [&'static str],
    finds: &'static str,
) -> Row {
    Row {
        names,
        level,
        reads,
        finds,
    }
}

/// All rows.
pub const ROWS: &[Row] = &[
    // On the host.
    read(
        "host.proof.coq",
        Slice(1),
        &["proof/coq", "kernel/own/src"],
        "a step of the account's mathematics that does not follow",
    ),
    read(
        "host.book.builds",
        Slice(1),
        &["docs", "course/src/book"],
        "a chapter or a link that the book lacks",
    ),
    row(
        "host.doc.*",
        Slice(1),
        "an example of the documentation that does not compile or says something else",
    ),
    row(
        "host.loom.*caught*",
        Default,
        "a model of atomics that does not see a rule that is broken on purpose",
    ),
    read(
        "host.loom.loom_own.*",
        Slice(1),
        &["kernel/own"],
        "an interleaving of atomics that breaks the account",
    ),
    row(
        "host.loom.*",
        Default,
        "an interleaving of atomics that breaks a lock, a flush or a deferred split",
    ),
    row(
        "host.shuttle.*",
        Default,
        "a schedule of two or three CPUs that loses a write, a flush or a folio",
    ),
    read(
        "host.labs.*.broken",
        Slice(3),
        &["course/labs", "course/src/lab"],
        "a broken solution that a lab's tests pass",
    ),
    read(
        "host.labs.*.alone",
        Spread,
        &["course/labs", "course/src/lab"],
        "a lab that does not compile without the others",
    ),
    read(
        "host.labs.sandbox",
        Default,
        &["course/src/lab"],
        "others' code that gets out of its sandbox",
    ),
    read(
        "host.labs.seams",
        Default,
        &[
            "course/labs",
            "course/src/lab",
            "kernel/mm",
            "kernel/switches",
        ],
        "a seam of a lab that does not fit the memory manager any longer",
    ),
    row("host.labs.*", Default, "a lab whose skeleton gets points"),
    row(
        "host.selftests.*",
        Default,
        "a selftest that Linux does not pass: the test is wrong",
    ),
    row(
        "host.arch-sim.*",
        Default,
        "a fault of the memory manager on the simulated machine; a mutant that no check sees",
    ),
    row(
        "host.*",
        Default,
        "a pure function of the kernel or the tools that is wrong; a claim of the documentation that does not hold",
    ),
    // The kernel's own suite, and the ways to boot.
    row(
        "kernel.*",
        Default,
        "the kernel around the memory manager on the real page tables: clocks, switches, pins, the scheduler",
    ),
    row(
        "way.q35.selftests.*,way.virt.selftests.*",
        Slice(6),
        "a system call that depends on the machine",
    ),
    row(
        "way.*.selftests.*",
        Slice(6),
        "a system call that depends on the loader or the board",
    ),
    row(
        "way.q35.*,way.virt.*",
        Default,
        "a PC with ACPI, or a board with a GIC, that does not boot",
    ),
    row(
        "way.q35-bios.*,way.q35-uefi.*",
        Slice(6),
        "what Limine and the firmware of a PC tell, read wrongly",
    ),
    row(
        "way.*",
        Slice(5),
        "what UEFI or a Raspberry Pi's firmware tells, read wrongly",
    ),
    // Programs on the kernel.
    row(
        "user.*.smp4.debug.*",
        Slice(2),
        "an assertion, an overflow or the order of two locks, on four CPUs",
    ),
    row(
        "user.*.selftests.*",
        Default,
        "a system call that does something else than on Linux, on one CPU and on four",
    ),
    row(
        "user.*.settings.all_sizes,user.*.settings.contpte_off",
        Default,
        "a folio's size, or blocks of contiguous entries, that a program can tell",
    ),
    row(
        "user.*.settings.pairs_*",
        Settings,
        "two settings of switches that a program can tell",
    ),
    row(
        "user.*.settings.*",
        Spread,
        "one size of folios that a program can tell",
    ),
    row(
        "user.*.abuse.torture_long,user.*.abuse.heap_fail*",
        Slice(4),
        "a lost write or a leak that takes many steps, or several refusals, to show",
    ),
    row(
        "user.*.abuse.*",
        Default,
        "a program that takes the machine, its memory or a count with it; a race of threads",
    ),
    row(
        "user.*.stretch.fuzz",
        Default,
        "a call that keeps the machine for longer than it may",
    ),
    row(
        "user.*.stretch.*",
        Slice(4),
        "a call that keeps the machine for longer than it may, of many more",
    ),
    row(
        "user.*.programs.stress_ng*",
        Slice(4),
        "a race that stress-ng's stressors find, one by one and together",
    ),
    row(
        "user.*.programs.linux_selftests",
        Slice(5),
        "a test of Linux's own that no longer passes",
    ),
    row(
        "user.*.programs.*",
        Default,
        "a C program of glibc or musl, or busybox, that runs otherwise than on Linux",
    ),
    row(
        "user.*.foreign.*",
        Slice(5),
        "a program of Debian's that no longer runs: bash, gdb, strace, python3, sqlite3, perl, Go, Redis",
    ),
    row(
        "user.*.plugin.counts,user.*.plugin.arguments",
        Default,
        "a count of the plugin for QEMU that is not what the program does",
    ),
    read(
        "user.*.plugin.*",
        Slice(5),
        &["measure/plugin", "measure/counts", "measure/models"],
        "a count that differs from run to run, or between CPUs",
    ),
    read(
        "user.*.conflicts.*",
        Slice(5),
        &["measure/src/conflicts"],
        "a cache line that two CPUs contend for and did not before",
    ),
    read(
        "user.*.labs.*",
        Slice(3),
        &["course/labs", "course/src/lab"],
        "an answer that does not get full points, a submission that is graded as something else",
    ),
    row(
        "user.*.boot.*",
        Default,
        "wrong input that is not refused in words; a cost above its budget",
    ),
    row(
        "user.*.golden.fault,user.*.golden.munmap,user.*.golden.fork,user.*.golden.reuse-byte,\
         user.*.golden.dontneed,user.*.golden.mremap",
        Default,
        "an operation of the bench that costs 1 % more or less than it did",
    ),
    row(
        "user.*.golden.*",
        Spread,
        "one of the other operations that costs 1 % more or less than it did",
    ),
    row(
        "user.*.scene.*,user.*.gdb.*,user.*.shell.*",
        Default,
        "what somebody sees who draws a scene, attaches gdb or types at the shell",
    ),
];

/// The row of a case.
pub fn row_of(name: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| glob::matches(row.names, name))
}

/// The slice of a case that is not in each run.
fn slice_of(level: Level, name: &str) -> Option<u32> {
    match level {
        Default => None,
        Slice(slice) => Some(slice),
        // FNV-1a: the same on every machine and with every compiler.
        Spread | Settings => {
            let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
            Some(1 + name.bytes().fold(0x811c_9dc5, step) % SLICES)
        }
    }
}

/// The level of a case in words, for lists: `default`, or its slice.
pub fn words(name: &str) -> String {
    let slice = row_of(name).and_then(|row| slice_of(row.level, name));
    slice.map_or("default".to_owned(), |slice| format!("slice {slice}"))
}

/// What a run has of the levels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// All of them.
    pub full: bool,
    /// A slice beside the default.
    pub slice: Option<u32>,
    /// Cases of [`Level::Settings`] that are in the default.
    pub drawn: BTreeSet<String>,
    /// Files that were changed: what reads them is in.
    pub changed: Vec<String>,
}

impl Selection {
    /// Whether it has the case of this name.
    pub fn has(&self, name: &str) -> bool {
        let Some(row) = row_of(name) else {
            return true;
        };
        let slice = slice_of(row.level, name);
        let reads = |file: &String| row.reads.iter().any(|part| below(part, file));
        self.full
            || slice.is_none()
            || slice == self.slice
            || self.drawn.contains(name)
            || self.changed.iter().any(reads)
    }
}

/// Whether a file is this one, or in this folder.
pub fn below(part: &str, file: &str) -> bool {
    file.strip_prefix(part)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::cases::Known;
    use crate::test::pairs;

    fn selection(full: bool, slice: Option<u32>) -> Selection {
        Selection {
            full,
            slice,
            drawn: pairs::drawn(1),
            changed: Vec::new(),
        }
    }

    #[test]
    fn every_case_has_a_row_and_every_row_cases() {
        let known = Known::tracked().unwrap();
        let mut used = vec![false; ROWS.len()];
        for name in known.names() {
            let at = ROWS.iter().position(|row| glob::matches(row.names, &name));
            used[at.unwrap_or_else(|| panic!("{name} is in no row"))] = true;
        }
        for (row, used) in ROWS.iter().zip(used) {
            assert!(used, "{} matches no case", row.names);
        }
    }

    #[test]
    fn the_default_and_all_slices_are_the_full_level() {
        let known = Known::tracked().unwrap();
        let mut counts = [0; 1 + SLICES as usize];
        for name in known.names() {
            let row = row_of(&name).expect("a row");
            let slice = slice_of(row.level, &name);
            counts[slice.unwrap_or(0) as usize] += 1;
        }
        assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
        // As a run asks: one case of each kind.
        for name in [
            "host.proof.coq",
            "user.x86_64.settings.pairs_03",
            "kernel.x86_64.quire.cost.x",
        ] {
            let all = (1..=SLICES)
                .filter(|slice| selection(false, Some(*slice)).has(name))
                .count();
            let default = selection(false, None).has(name);
            assert_eq!(all, if default { SLICES as usize } else { 1 }, "{name}");
            assert!(selection(true, None).has(name));
        }
    }

    #[test]
    fn numbers_go_round_the_slices() {
        assert_eq!([1, 6, 7, 12, 13, 0].map(slice), [1, 6, 1, 6, 1, 6]);
    }

    #[test]
    fn a_change_brings_what_reads_it() {
        let mut selection = selection(false, None);
        assert!(!selection.has("host.proof.coq"));
        selection.changed = vec!["kernel/own/src/lib.rs".to_owned()];
        assert!(selection.has("host.proof.coq") && !selection.has("host.book.builds"));
        assert!(below("docs", "docs/a.md") && below("a.md", "a.md") && !below("doc", "docs/a.md"));
    }
}
