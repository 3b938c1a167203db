//! The bench's operations, checked before anything is built: operations, folio sizes, switches.
use switches::Switch;
use tools::host::errors::UsageError;
use tools::host::words;

/// The operations of the program `bench`, in the order of the rows.
pub const OPS: [&str; 38] = [
    "fault",
    "remap",
    "munmap",
    "fork",
    "cow",
    "cow-byte",
    "reuse",
    "reuse-byte",
    "dontneed",
    "mremap",
    "protect",
    "unprotect",
    "collapse",
    "compact",
    "exit",
    "exit-bare",
    "fork-exec",
    "reach",
    "replay",
    "updates",
    "survivor",
    "child-byte",
    "cow-64k",
    "cow-2m",
    "fork1g",
    "touch1g",
    "reach1g",
    "beside",
    "cow-seq",
    "cow-rand",
    "maps",
    "smaps",
    "vmas",
    "pageout",
    "pageout-same",
    "refault",
    "refault-same",
    "refault-rand",
];

/// The operations of which it is known what they cost Linux: docs/linux-baseline.md.
pub const BASELINE: &[&str] = OPS.split_at(10).0;

/// The operations that need a swap area.
pub const SWAPS: &[&str] = OPS.split_at(33).1;

/// Programs that are run, too, when an operation is asked for, which they may be themselves: the
/// operation, the program, the memory that it needs, and whether it takes `--size`.
pub const PROGRAMS: [(&str, &str, &str, bool); 5] = [
    ("mremap", "moves", "6G", false),
    ("mremap", "gcflip", "6G", false),
    ("snapshot", "snapshot", "1G", true),
    ("latency", "latency", "1G", true),
    ("cost", "cost", "1G", false),
];

/// Folio sizes in kB.
pub const SIZES: [u32; 9] = [4, 16, 32, 64, 128, 256, 512, 1024, 2048];

/// Refuses operations and sizes that the bench does not have.
pub fn check(ops: &[String], sizes: &[u32]) -> Result<(), UsageError> {
    let programs = PROGRAMS.iter().map(|(op, ..)| *op);
    let all: Vec<&str> = OPS.into_iter().chain(programs).collect();
    words::check("--op", ops.iter().map(String::as_str), &all)?;
    let known = SIZES.map(|size| size.to_string());
    let sizes: Vec<String> = sizes.iter().map(u32::to_string).collect();
    words::check(
        "--size",
        sizes.iter().map(String::as_str),
        &known.each_ref().map(String::as_str),
    )
}

/// The words of the command line that each run has, from `SWITCH=VALUE,VALUE`; one run without any
/// when there is no switch.
pub fn settings(set: Option<&str>) -> Result<Vec<String>, UsageError> {
    let Some(set) = set else {
        return Ok(vec![String::new()]);
    };
    let (name, values) = pair(set)?;
    check_switch(name, &[])?;
    Ok(values_of(name, values)?
        .iter()
        .map(|value| format!("{name}={value}"))
        .collect())
}

/// The two sides of `SWITCH=VALUE,VALUE`.
pub fn pair(set: &str) -> Result<(&str, &str), UsageError> {
    set.split_once('=')
        .ok_or_else(|| UsageError(format!("--set {set} is not SWITCH=VALUE,VALUE")))
}

/// Refuses what is neither a switch nor one of `others`.
pub fn check_switch(name: &str, others: &[&str]) -> Result<(), UsageError> {
    let mut known: Vec<&str> = Switch::all().map(Switch::name).collect();
    known.extend(others);
    words::check("--set", [name], &known)
}

/// The values of a switch, from `VALUE,VALUE`.
pub fn values_of<'a>(name: &str, values: &'a str) -> Result<Vec<&'a str>, UsageError> {
    let known = Switch::by_name(name).map_or(&[][..], Switch::words);
    words::check(&format!("--set {name}"), values.split(','), known)?;
    Ok(values.split(',').collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(set: &str) -> String {
        settings(Some(set)).unwrap_err().0
    }

    #[test]
    fn settings_of_a_switch() {
        assert_eq!(settings(None).unwrap(), [""]);
        let words = settings(Some("contpte=on,off")).unwrap();
        assert_eq!(words, ["contpte=on", "contpte=off"]);
        assert!(refused("contpte").contains("is not SWITCH=VALUE"));
        assert!(refused("contpte=").ends_with("is none of off, on"));
        assert!(refused("fork=bacth").ends_with("did you mean batch?"));
        assert!(refused("frok=batch").ends_with("did you mean fork?"));
    }

    #[test]
    fn operations_and_sizes() {
        let ops = |words: &[&str]| {
            words
                .iter()
                .map(|&word| word.to_owned())
                .collect::<Vec<_>>()
        };
        assert!(check(&ops(&["fork", "touch1g", "snapshot"]), &[4, 2048]).is_ok());
        let error = check(&ops(&["frok"]), &[]).unwrap_err();
        assert!(error.0.ends_with("did you mean fork?"), "{error}");
        let error = check(&[], &[4, 8]).unwrap_err();
        assert!(error.0.starts_with("--size 8 is none of 4, 16,"), "{error}");
    }

    /// The text between `before` and `after`, wherever `before` stands.
    fn between<'a>(source: &'a str, before: &'a str, after: &'a str) -> Vec<&'a str> {
        let rest = source.split(before).skip(1);
        rest.filter_map(|rest| Some(rest.split_once(after)?.0))
            .collect()
    }

    #[test]
    fn the_program_has_these_operations_and_sizes() {
        let table = include_str!("../../../userland/src/bin/bench/table.rs");
        let named = |words: &&str| words.trim_start().starts_with('"');
        let names = between(table, "op(", ",").into_iter().filter(named);
        let mut there: Vec<&str> = names.map(|name| name.trim().trim_matches('"')).collect();
        let mut here = OPS.to_vec();
        there.sort_unstable();
        here.sort_unstable();
        assert_eq!(here, there);
        let measuring = include_str!("../../../userland/src/measuring.rs");
        assert_eq!(
            between(measuring, "const SIZES: [usize; 9] = ", ";"),
            [format!("{SIZES:?}")]
        );
    }
}
