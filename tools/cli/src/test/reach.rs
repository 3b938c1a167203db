//! Which tests a change can reach, by the files that it changes: for `--changed` and `try`.
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use tools::host::{words, workspace};

/// Files and folders, and patterns of the tests that a change there can reach. The longest
/// beginning that fits a file counts; for the memory manager's rooms see [`of_room`].
const REACH: &[(&str, &str)] = &[
    ("docs", "host.cli.links.*,host.cli.tables.*,host.book.*"),
    ("proof/coq", "host.proof.*,host.cli.links.*"),
    ("docs/report", "host.cli.links.*"),
    ("README.md", "host.cli.links.*,host.book.*"),
    (
        "ARCHITECTURE.md",
        "host.cli.links.*,host.rooms.*,host.book.*",
    ),
    (
        "CONTRIBUTING.md",
        "host.cli.links.*,host.rooms.*,host.book.*",
    ),
    (
        "course/labs",
        "host.labs.*,user.*.labs.*,host.rooms.*,host.course.lab.*",
    ),
    ("kernel/screen", "host.screen.*,way.*.boot.*"),
    ("proof/ktap", "host.ktap.*,kernel.*,*.selftests.*"),
    (
        "kernel/parts",
        "host.parts.*,kernel.*,*.selftests.*,*.boot.*",
    ),
    ("proof/rooms", "host.rooms.*"),
    (
        "kernel/fallible",
        "host.fallible.*,host.mm.*,host.arch-sim.*,kernel.*,*.abuse.*",
    ),
    ("kernel/src", "host.rooms.*,kernel.*,user.*,way.*"),
    (
        "kernel/src/fs",
        "host.rooms.*,kernel.*,*.selftests.*,*.boot.*,*.programs.*,*.shell.*,*.abuse.*,*.foreign.*",
    ),
    (
        "kernel/src/views",
        "host.rooms.*,kernel.*,*.selftests.*,*.programs.*,*.boot.*,*.scene.*",
    ),
    (
        "kernel/src/thp",
        "host.rooms.*,kernel.*,*.selftests.*,*.settings.*,*.golden.*,*.boot.*",
    ),
    (
        "arch/x86_64",
        "host.arch-x86_64.*,host.loom.*,host.rooms.*,kernel.x86_64.*,user.x86_64.*,way.q35*",
    ),
    (
        "arch/aarch64",
        "host.arch-aarch64.*,host.rooms.*,kernel.aarch64.*,user.aarch64.*,way.virt*,way.raspi*",
    ),
    ("proof/c", "*.programs.*,*.foreign.*"),
    ("proof/go", "*.foreign.*"),
    ("measure/models", "host.models.*,user.*.plugin.*"),
    (
        "measure/counts",
        "host.counts.*,user.*.plugin.*,user.*.conflicts.*,user.*.golden.*",
    ),
    ("measure/trial", "host.trial.*"),
    ("measure/plugin", "user.*.plugin.*,user.*.conflicts.*"),
    ("measure/golden", "host.measure.*,user.*.golden.*"),
    (
        "tools",
        "host.tools.*,host.measure.*,host.course.*,host.cli.*",
    ),
    ("tools/cli", "host.cli.*"),
    ("measure/src", "host.measure.*,host.course.*,host.cli.*"),
    ("course/src", "host.course.*,host.cli.*"),
    (
        "measure/src/bench",
        "host.measure.*,user.*.golden.*,user.*.boot.*",
    ),
    ("measure/src/conflicts", "host.measure.*,user.*.conflicts.*"),
    ("course/src/lab", "host.course.*,host.labs.*,user.*.labs.*"),
    ("measure/src/sweep", "host.measure.*,user.*.boot.*"),
    ("userland/src/bin", "host.userland.*,user.*.boot.*"),
    ("userland/src/bin/selftests", "*.selftests.*"),
    (
        "userland/src/bin/torture",
        "user.*.abuse.*,user.*.boot.same_figures*",
    ),
    ("userland/src/bin/abuse", "user.*.abuse.*,user.*.stretch.*"),
    ("userland/src/bin/fuzz", "user.*.abuse.*,user.*.stretch.*"),
    (
        "userland/src/bin/bench",
        "host.userland.*,user.*.golden.*,user.*.boot.bench*",
    ),
];

/// What each change of the memory manager can reach beside its room's tests.
const MEMORY: &str = "host.mm.*,host.rooms.*,host.course.lab.*,host.labs.seams,host.arch-sim.model.*,host.arch-sim.mutants.*,kernel.*,*.selftests.*,*.golden.*";

/// A filter of the tests that a change of these files can reach; `None`: of all.
pub fn of(files: &[String]) -> Result<Option<String>> {
    let architecture = architecture()?;
    let mut patterns = BTreeSet::new();
    for file in files {
        let fits = |(part, _): &&(&str, &str)| super::levels::below(part, file);
        let longest = REACH.iter().filter(fits).max_by_key(|(part, _)| part.len());
        let room = file.strip_prefix("kernel/mm/src/").and_then(|rest| {
            let room = rest.split(['/', '.']).next()?;
            of_room(&architecture, room)
        });
        match (room, longest) {
            (Some(room), _) => patterns.extend(MEMORY.split(',').map(str::to_owned).chain(room)),
            (None, Some((_, tests))) => patterns.extend(tests.split(',').map(str::to_owned)),
            (None, None) => return Ok(None),
        }
    }
    Ok(Some(Vec::from_iter(patterns).join(",")))
}

fn architecture() -> Result<String> {
    let path = workspace::root().join("ARCHITECTURE.md");
    fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

/// Patterns of the programs that ARCHITECTURE.md names for a room of the memory manager, under
/// "Where the tests are".
fn of_room(architecture: &str, room: &str) -> Option<Vec<String>> {
    let (_, section) = architecture.split_once("\n## Where the tests are\n")?;
    let section = section.split("\n## ").next()?;
    let mut rows = section.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        Some((cells.next()?, cells.next()?))
    });
    let quoted = format!("`{room}`");
    let (_, paths) = rows.find(|(rooms, _)| rooms.contains(&quoted))?;
    let paths = paths.split('`').skip(1).step_by(2);
    Some(
        paths
            .flat_map(alternatives)
            .filter_map(|path| pattern(&path))
            .collect(),
    )
}

/// A name with `{a,b}` as several names.
pub fn alternatives(name: &str) -> Vec<String> {
    let parts = name
        .split_once('{')
        .and_then(|(before, rest)| Some((before, rest.split_once('}')?)));
    match parts {
        Some((before, (names, after))) => {
            let names = names.split(',');
            names.map(|name| format!("{before}{name}{after}")).collect()
        }
        None => vec![name.to_owned()],
    }
}

/// `proof/sim/tests/reuse.rs` and `kernel/mm/tests/vmas` as patterns of their tests.
fn pattern(path: &str) -> Option<String> {
    let (folder, program) = path.split_once("/tests/")?;
    let package = match folder {
        "proof/sim" => "arch-sim",
        folder => folder.rsplit('/').next()?,
    };
    let program = program.trim_end_matches(".rs");
    Some(match program.starts_with("loom") {
        true => format!("host.loom.{program}.*"),
        false if program == "shuttle" => "host.shuttle.*".to_owned(),
        false => format!("host.{package}.{program}.*"),
    })
}

/// What `try WORD` runs: of the memory manager's rooms and files with this name the programs that
/// ARCHITECTURE.md has for them, the kernel's own suite, selftests whose names begin so, and the
/// golden counts of operations whose names do. `machine` is the one whose kernel boots.
pub fn of_word(word: &str, machine: &str) -> Result<String> {
    let architecture = architecture()?;
    let root = workspace::root().join("kernel/mm/src");
    let sources = sources(&root, "")?;
    let room = |file: &String| file.split(['/', '.']).next().unwrap_or_default().to_owned();
    let rooms = sources.iter().map(|(file, name)| (room(file), name));
    let known: BTreeSet<String> = rooms
        .clone()
        .flat_map(|(room, name)| [room, name.clone()])
        .collect();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    words::check("try", [word], &known)?;
    let mut patterns = BTreeSet::new();
    for (room, _) in rooms.filter(|(room, name)| room == word || *name == word) {
        patterns.extend(of_room(&architecture, &room).unwrap_or_default());
        patterns.insert(format!("host.mm.{room}.*"));
    }
    patterns.insert("host.arch-sim.mutants.*".to_owned());
    // Models of all schedules take minutes.
    patterns.retain(|pattern| {
        !["host.loom", "host.shuttle"]
            .iter()
            .any(|it| pattern.starts_with(it))
    });
    for suite in ["selftests", "golden"] {
        patterns.insert(format!("user.{machine}.{suite}.{word}*"));
    }
    patterns.insert(format!("kernel.{machine}.mm.*"));
    Ok(Vec::from_iter(patterns).join(","))
}

/// The source files below a folder: path from there, name without its ending.
fn sources(folder: &Path, before: &str) -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let whole = format!("{before}{name}");
        if path.is_dir() {
            found.extend(sources(&path, &format!("{whole}/"))?);
        } else if let Some(stem) = name.strip_suffix(".rs") {
            found.push((whole.clone(), stem.to_owned()));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::cases::Known;
    use ktest::glob;

    fn reached(files: &[&str]) -> Option<String> {
        let files: Vec<String> = files.iter().map(|file| (*file).to_owned()).collect();
        of(&files).unwrap()
    }

    #[test]
    fn every_pattern_matches_a_case_and_every_path_exists() {
        let known: Vec<String> = Known::tracked().unwrap().names().collect();
        let matches = |pattern: &str| known.iter().any(|name| glob::matches(pattern, name));
        for (path, patterns) in REACH {
            assert!(workspace::root().join(path).exists(), "{path}");
            patterns
                .split(',')
                .for_each(|one| assert!(matches(one), "{path}: {one}"));
        }
        for room in [
            "fault", "tlb", "table", "vma", "verbs", "frame", "hugetlb", "space",
        ] {
            let patterns = of_room(&architecture().unwrap(), room).expect(room);
            patterns
                .iter()
                .for_each(|one| assert!(matches(one), "{room}: {one}"));
        }
    }

    #[test]
    fn what_a_change_reaches() {
        let cow = reached(&["kernel/mm/src/fault/cow.rs"]).unwrap();
        for pattern in ["host.arch-sim.reuse.*", "*.golden.*", "kernel.*"] {
            assert!(cow.split(',').any(|one| one == pattern), "{cow}");
        }
        let docs = reached(&["docs/folios.md", "proof/coq/Account.v"]).unwrap();
        assert!(
            docs.contains("host.proof.*") && !docs.contains("kernel"),
            "{docs}"
        );
        assert_eq!(reached(&["docs/folios.md", "Cargo.lock"]), None);
    }

    #[test]
    fn a_word_is_a_room_or_a_file() {
        let cow = of_word("cow", "x86_64").unwrap();
        assert!(cow.contains("host.arch-sim.reuse.*") && cow.contains("user.x86_64.golden.cow*"));
        assert!(!cow.contains("aarch64"));
        let error = format!("{:#}", of_word("faults", "x86_64").unwrap_err());
        assert!(error.contains("did you mean fault?"), "{error}");
    }
}
