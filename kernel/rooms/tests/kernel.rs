//! The floors of `kernel/src`: a floor names only those below it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The floors, the lowest first. The crate's root and the in-kernel tests stand with the last.
const FLOORS: [&str; 10] = [
    "base", "sched", "fs", "process", "pressure", "thp", "exec", "syscall", "views", "entry",
];

/// The machine's crate under one name, for both: below all floors.
const GROUND: &str = "arch";

fn floor_of(module: &[String]) -> usize {
    let Some(floor) = module.first().filter(|name| *name != "tests") else {
        return FLOORS.len() - 1;
    };
    let place = FLOORS.iter().position(|name| name == floor);
    place.unwrap_or_else(|| panic!("{floor} is no floor"))
}

/// Each upward arrow, from module to module, with a line where it is.
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
fn no_upward_arrows() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("../src");
    let sources = rooms::read(&src);
    let seen: usize = sources.iter().map(|source| source.imports.len()).sum();
    assert!(seen > 800, "only {seen} imports were found");
    let found = upward(&sources);
    assert!(found.is_empty(), "upward arrows: {found:#?}");
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
            "base::errno",
            "use super::super::fs::path;\nuse super::room;",
        ),
        source(
            "fs::path",
            "use crate::process::task::Task;\nuse crate::base::errno;\nuse crate::arch;",
        ),
        source(
            "process::task",
            "use crate::fs::path;\nfn f() {\n    crate::start()\n}",
        ),
    ];
    let found: Vec<_> = upward(&sources).into_iter().collect();
    let wanted = [
        ("base::errno -> fs::path", "x.rs:1"),
        ("fs::path -> process::task", "x.rs:1"),
        ("process::task -> ", "x.rs:3"),
    ];
    assert_eq!(found, wanted.map(|(a, b)| (a.to_string(), b.to_string())));
}
