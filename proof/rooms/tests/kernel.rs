//! The floors of `kernel/src`: a floor names only those below it.

use rooms::floors::{order, upward};
use std::path::Path;

/// The page with the table of the floors.
const MAP: &str = include_str!("../../../ARCHITECTURE.md");

#[test]
fn no_upward_arrows() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernel/src");
    let sources = rooms::read(&src);
    let seen: usize = sources.iter().map(|source| source.imports.len()).sum();
    assert!(seen > 800, "only {seen} imports were found");
    let floors = order(MAP);
    assert_eq!(floors.len(), 10, "the table in ARCHITECTURE.md: {floors:?}");
    let found = upward(&floors, &sources);
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
    let found: Vec<_> = upward(&order(MAP), &sources).into_iter().collect();
    let wanted = [
        ("base::errno -> fs::path", "x.rs:1"),
        ("fs::path -> process::task", "x.rs:1"),
        ("process::task -> ", "x.rs:3"),
    ];
    assert_eq!(found, wanted.map(|(a, b)| (a.to_string(), b.to_string())));
}
