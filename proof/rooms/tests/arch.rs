//! The crates of the machines: one gate, the same public modules; no import circles in these, the
//! kernel, the tools and the user programs; and in no crate a test that nothing runs.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

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
    let folders = [
        "arch/boot",
        "arch/x86_64",
        "arch/aarch64",
        "kernel",
        "kernel/mm",
        "kernel/own",
        "kernel/parts",
        "kernel/screen",
        "kernel/fallible",
        "kernel/switches",
        "proof/sim",
        "proof/ktest",
        "proof/ktap",
        "measure/models",
        "measure/counts",
        "measure/plugin",
        "measure/trial",
        "measure",
        "course",
        "tools",
        "tools/cli",
        "userland",
    ];
    for folder in folders {
        let sources = rooms::read(&root().join(folder).join("src"));
        imports += sources.iter().map(|s| s.imports.len()).sum::<usize>();
        let circles = rooms::circles::all(&sources);
        assert!(
            circles.is_empty(),
            "modules of {folder} import each other: {circles:?}"
        );
    }
    assert!(imports > 200, "only {imports} imports were found");
}

#[test]
fn tools_have_floors() {
    let floors = ["host", "machine", "args", "house", "proof", "run", "media"];
    let sources = rooms::read(&root().join("tools/src"));
    let imports: usize = sources.iter().map(|source| source.imports.len()).sum();
    assert!(imports > 100, "only {imports} imports were found");
    let found = rooms::floors::upward(&floors, &sources);
    assert!(found.is_empty(), "upward arrows: {found:#?}");
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

/// A target of a manifest: a library, a program or a test.
struct Target<'a> {
    /// The folder of its crate.
    member: &'a str,
    kind: &'a str,
    settings: &'a str,
}

impl<'a> Target<'a> {
    /// Those that a manifest says something of: each a table, or a row of `bin = [`.
    fn all(member: &'a str, manifest: &'a str) -> Vec<Self> {
        let target = |kind, settings| Target {
            member,
            kind,
            settings,
        };
        let rows = manifest
            .lines()
            .filter(|line| line.starts_with("    { name = "));
        let rows = rows.map(|row| target("bin", row));
        let tables = manifest.split("\n[").skip(1);
        let tables = tables.filter_map(|table| table.split_once("]\n"));
        let tables = tables.map(|(kind, settings)| target(kind.trim_matches(['[', ']']), settings));
        rows.chain(tables)
            .filter(|target| ["lib", "bin", "test"].contains(&target.kind))
            .collect()
    }
    fn says(&self, setting: &str) -> bool {
        let settings = self.settings.split(['\n', ',', '{', '}']);
        settings.map(str::trim).any(|one| one == setting)
    }
    fn value(&self, name: &str) -> Option<&str> {
        self.settings
            .split_once(&format!("{name} = \""))?
            .1
            .split('"')
            .next()
    }
    /// Its files. What lies beside a `main.rs` belongs to the library, if there is one.
    fn files(&self) -> Vec<PathBuf> {
        let member = root().join(self.member);
        let below = |folder: &Path| -> Vec<PathBuf> {
            rooms::read(folder)
                .into_iter()
                .map(|source| source.file)
                .collect()
        };
        let (src, name) = (member.join("src"), self.value("name").unwrap_or_default());
        let folder = member.join("src/bin").join(name);
        match (self.kind, self.value("path")) {
            ("test", _) => vec![member.join("tests").join(name).with_extension("rs")],
            ("bin", None) if folder.is_dir() => below(&folder),
            ("bin", None) => vec![folder.with_extension("rs")],
            ("bin", Some(path)) if src.join("lib.rs").exists() => vec![member.join(path)],
            _ => {
                let mut files = below(&src);
                files.retain(|file| !file.starts_with(member.join("src/bin")));
                files
            }
        }
    }
}

/// A test in a target with `test = false`, and an example in a library with `doctest = false`.
fn lost(target: &Target<'_>) -> Vec<String> {
    let mut lost = Vec::new();
    for file in target.files() {
        let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{file:?}: {error}"));
        let lines = || text.lines().map(str::trim_start);
        let is_test = |line: &str| line.starts_with("#[test]") || line.starts_with("#[cfg(test");
        if target.says("test = false") && lines().any(is_test) {
            lost.push(format!("{}: a test", file.display()));
        }
        let fences =
            lines().filter_map(|line| line.strip_prefix("//")?.get(1..)?.strip_prefix(" ```"));
        let is_example = |word: &str| !["text", "json"].contains(&word);
        if target.says("doctest = false") && fences.step_by(2).any(is_example) {
            lost.push(format!("{}: an example", file.display()));
        }
    }
    lost
}

#[test]
fn no_test_is_lost() {
    let workspace = text("Cargo.toml");
    let members = workspace
        .split("members = [")
        .nth(1)
        .and_then(|rest| rest.split(']').next());
    let members = members.expect("members").split('"').skip(1).step_by(2);
    let mut quiet = 0;
    for member in members {
        let manifest = text(&format!("{member}/Cargo.toml"));
        for target in Target::all(member, &manifest) {
            quiet += usize::from(target.says("test = false"));
            assert_eq!(lost(&target), [""; 0]);
        }
    }
    assert!(quiet > 20, "only {quiet} settings were found");
}
