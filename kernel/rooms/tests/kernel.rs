//! The floors of `kernel/src`: a floor names only those below it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The floors, the lowest first, and which modules stand on each. A module below one that is named
/// stands where that does; the crate's root stands with `entry`.
const FLOORS: [(&str, &[&str]); 10] = [
    (
        "base",
        &[
            "base", "cmdline", "console", "errno", "heap", "klog", "kstack", "machine", "payload",
            "random", "ranks", "stretch", "uaccess",
        ],
    ),
    ("sched", &["sched"]),
    ("fs", &["fs"]),
    ("process", &["task", "signal", "futex"]),
    ("pressure", &["pressure"]),
    ("thp", &["thp"]),
    ("exec", &["exec"]),
    ("syscall", &["syscall"]),
    ("views", &["views"]),
    (
        "entry",
        &["boot", "panic", "payload", "symbols", "trap", "tests"],
    ),
];

/// The machine's crate under one name, for both: below all floors.
const GROUND: &str = "arch";

/// Arrows that still go up, from file to module. Each goes; none comes.
const UPWARD: &[&str] = &[];

fn floor_of(module: &[String]) -> usize {
    let Some(first) = module.first() else {
        return FLOORS.len() - 1;
    };
    let stands = |name: &str| {
        let name: Vec<&str> = name.split("::").collect();
        module.len() >= name.len() && name.iter().zip(module).all(|(a, b)| a == b)
    };
    let of = |floor: &(&str, &[&str])| {
        let names = floor.1.iter().filter(|name| stands(name));
        names.map(|name| name.len()).max()
    };
    let place = (0..FLOORS.len()).max_by_key(|at| of(&FLOORS[*at]));
    let place = place.filter(|at| of(&FLOORS[*at]).is_some());
    place.unwrap_or_else(|| panic!("module {first} stands on no floor"))
}

/// Each upward arrow with a line where it is.
fn upward(sources: &[rooms::Source]) -> BTreeMap<String, String> {
    let modules: BTreeSet<&[String]> = sources.iter().map(|s| &s.module[..]).collect();
    let mut found = BTreeMap::new();
    for source in sources {
        let floor = floor_of(&source.module);
        for import in &source.imports {
            let path = &import.path;
            let known = (1..=path.len())
                .rev()
                .find(|n| modules.contains(&path[..*n]));
            let other = match known {
                Some(n) => &path[..n],
                // An item of the root, unless a module inside the file means its own file.
                None if import.absolute && path.first().is_some_and(|name| name != GROUND) => &[],
                None => continue,
            };
            if floor_of(other) > floor {
                let arrow = format!("{} -> {}", source.module.join("::"), other.join("::"));
                found
                    .entry(arrow)
                    .or_insert_with(|| format!("{}:{}", source.file.display(), import.line));
            }
        }
    }
    found
}

#[test]
fn upward_arrows_only_go() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("../src");
    let sources = rooms::read(&src);
    let seen: usize = sources.iter().map(|source| source.imports.len()).sum();
    assert!(seen > 800, "only {seen} imports were found");
    let found = upward(&sources);
    let new: Vec<_> = found
        .iter()
        .filter(|(arrow, _)| !UPWARD.contains(&arrow.as_str()))
        .map(|(arrow, place)| format!("{arrow}, {place}"))
        .collect();
    assert!(
        new.is_empty(),
        "upward arrows that are new:\n{}",
        new.join("\n")
    );
    let gone: Vec<_> = UPWARD
        .iter()
        .filter(|arrow| !found.contains_key(**arrow))
        .collect();
    assert!(
        gone.is_empty(),
        "strike these from the list, they are gone: {gone:#?}"
    );
}

#[test]
fn an_upward_arrow_would_be_seen() {
    let source = |module: &str, text: &str| {
        let module: Vec<String> = module.split("::").map(String::from).collect();
        rooms::Source {
            file: "x.rs".into(),
            imports: rooms::imports(&module, text),
            module,
        }
    };
    let sources = [
        source(
            "fs::path",
            "use crate::task::Task;\nuse crate::errno::Errno;\nuse crate::arch;",
        ),
        source(
            "task",
            "use crate::fs::path;\nfn f() {\n    crate::start()\n}",
        ),
        source("errno", "use super::fs;"),
    ];
    let found: Vec<_> = upward(&sources).into_iter().collect();
    let wanted = [("fs::path -> task", "x.rs:1"), ("task -> ", "x.rs:3")];
    assert_eq!(found, wanted.map(|(a, b)| (a.to_string(), b.to_string())));
}
