//! The floors of `kernel/src`: a floor names only those below it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The page with the table of the floors.
const MAP: &str = include_str!("../../../ARCHITECTURE.md");

/// The machine's crate under one name, for both: below all floors.
const GROUND: &str = "arch";

/// The floors in the order of the table: the lowest first.
fn floors() -> Vec<&'static str> {
    let section = MAP.split("\n## Floors").nth(1).expect("the section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let row = |line: &'static str| Some(line.strip_prefix("| `")?.split_once("/` |")?.0);
    section.lines().filter_map(row).collect()
}

/// Where a module stands. The crate's root and the in-kernel tests stand with the highest floor.
fn floor_of(floors: &[&str], module: &[String]) -> usize {
    let Some(floor) = module.first().filter(|name| *name != "tests") else {
        return floors.len() - 1;
    };
    let place = floors.iter().position(|name| name == floor);
    place.unwrap_or_else(|| panic!("{floor} is not in the table of ARCHITECTURE.md"))
}

/// Each upward arrow, from module to module, with a line where it is.
fn upward(sources: &[rooms::Source]) -> BTreeMap<String, String> {
    let modules: BTreeSet<&[String]> = sources.iter().map(|s| &s.module[..]).collect();
    let floors = floors();
    let mut found = BTreeMap::new();
    for source in sources {
        let floor = floor_of(&floors, &source.module);
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
            if floor_of(&floors, other) > floor {
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
    assert_eq!(
        floors().len(),
        10,
        "the table in ARCHITECTURE.md: {:?}",
        floors()
    );
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
