//! The crates of the machines: one gate, the same public modules; and no import circles in these
//! and the small crates.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

const MACHINES: [&str; 2] = ["x86_64", "aarch64"];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn no_import_circles() {
    let mut imports = 0;
    let machines = ["boot", "sim", "x86_64", "aarch64"].map(|name| format!("arch/{name}"));
    let small = [
        "own", "parts", "ktest", "ktap", "screen", "fallible", "switches",
    ];
    let small = small.map(|name| format!("kernel/{name}"));
    for folder in machines.into_iter().chain(small) {
        let sources = rooms::read(&root().join(&folder).join("src"));
        imports += sources.iter().map(|s| s.imports.len()).sum::<usize>();
        let circle = rooms::circles::find(&sources);
        assert_eq!(circle, None, "modules of {folder} import each other");
    }
    assert!(imports > 200, "only {imports} imports were found");
}

/// What builds only for the kernel stands in one module, behind one condition.
#[test]
fn one_gate() {
    for machine in MACHINES {
        let src = root().join("arch").join(machine).join("src");
        let gates: Vec<String> = rooms::read(&src)
            .iter()
            .flat_map(|source| {
                let text = fs::read_to_string(&source.file).expect("a source file");
                let lines = text.lines().filter(|line| {
                    let line = line.trim_start();
                    // A model is another build of what it models.
                    let of_tests = line == "#[cfg(test)]" || line.contains("loom");
                    line.starts_with("#[cfg(") && !of_tests
                });
                lines.map(str::to_owned).collect::<Vec<_>>()
            })
            .collect();
        let gate = format!("#[cfg(all(target_arch = \"{machine}\", feature = \"machine\"))]");
        assert_eq!(gates, [gate]);
    }
}

#[test]
fn the_same_public_modules() {
    let [x86_64, aarch64] = MACHINES.map(|machine| {
        let text = text(&format!("arch/{machine}/src/machine/mod.rs"));
        let names = text.lines().filter(|line| line.starts_with("pub "));
        names.map(str::to_owned).collect::<BTreeSet<_>>()
    });
    assert_eq!(x86_64, aarch64);
    assert!(x86_64.len() > 5, "{x86_64:?}");
}
