//! The documentation holds together: links lead to files, decisions are numbered one by one, and
//! the reading order and the list of tests in ARCHITECTURE.md are those of the source.
use crate::test::reach::alternatives;
use std::fs;
use std::path::{Path, PathBuf};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The Markdown pages of a folder and of those below it.
fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            pages(&path, found);
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
}

/// What the links of a page name, but for addresses and places on the same page.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text
        .split("](")
        .skip(1)
        .filter_map(|rest| Some(rest.split_once(')')?.0));
    targets
        .map(|target| target.split('#').next().unwrap_or(target))
        .filter(|target| !target.is_empty() && !target.contains("://"))
}

#[test]
fn links_lead_to_files() {
    let mut all = Vec::new();
    pages(Path::new(ROOT), &mut all);
    assert!(all.len() > 10, "{all:?}");
    for page in all {
        let text = fs::read_to_string(&page).unwrap();
        for target in links(&text) {
            let place = page.parent().unwrap().join(target);
            assert!(place.exists(), "{}: {target}", page.display());
        }
    }
}

#[test]
fn decisions_are_numbered_one_by_one() {
    let folder = Path::new(ROOT).join("docs/decisions");
    let mut all = Vec::new();
    pages(&folder, &mut all);
    all.sort();
    for (index, page) in all.iter().enumerate() {
        let number = format!("{:04}", index + 1);
        let name = page.file_name().unwrap().to_string_lossy();
        assert!(name.starts_with(&format!("{number}-")), "{name}");
        let text = fs::read_to_string(page).unwrap();
        assert!(text.starts_with(&format!("# {number} ")), "{name}");
    }
}

/// A section of ARCHITECTURE.md.
fn section(heading: &str) -> String {
    let text = fs::read_to_string(Path::new(ROOT).join("ARCHITECTURE.md")).unwrap();
    let (_, rest) = text
        .split_once(heading)
        .unwrap_or_else(|| panic!("{heading}"));
    rest.split("\n## ").next().unwrap_or(rest).to_owned()
}

/// What stands in backticks, with `{a,b}` as several names.
fn quoted(text: &str) -> Vec<String> {
    let names = text.split('`').skip(1).step_by(2);
    names.flat_map(alternatives).collect()
}

#[test]
fn one_evening_of_reading() {
    let section = section("## One evening\n");
    let files = quoted(&section)
        .into_iter()
        .filter(|name| name.ends_with(".rs"));
    let lines = files.map(|file| {
        let text = fs::read_to_string(Path::new(ROOT).join(&file));
        text.unwrap_or_else(|error| panic!("{file}: {error}"))
            .lines()
            .count()
    });
    let lines: usize = lines.sum();
    assert!(
        (2250..2750).contains(&lines),
        "{lines} lines are not about 2,500"
    );
}

/// The first name in the last column of each question is in the file of the column before.
#[test]
fn questions_lead_to_lines() {
    let section = section("## Questions\n");
    let rows = section.lines().filter(|line| line.starts_with("| "));
    let rows: Vec<Vec<&str>> = rows.skip(1).map(|row| row.split(" | ").collect()).collect();
    assert_eq!(rows.len(), 13);
    for row in rows {
        let quoted = |at: usize| row[at].split('`').nth(1).expect("a name in backticks");
        // A column may quote the separator of a table.
        let (file, name) = (quoted(1), row[2..].join(" | "));
        let name = name.split('`').nth(1).expect("a name in backticks");
        let text = fs::read_to_string(Path::new(ROOT).join(file)).expect(file);
        assert!(text.contains(name), "{file}: {name}");
    }
}

/// Paths from the root in backticks, with `*` for both machines.
#[test]
fn paths_lead_to_files() {
    let folders = [
        "arch/",
        "kernel/",
        "proof/",
        "measure/",
        "course/",
        "userland/",
        "tools/",
        "docs/",
    ];
    let mut seen = 0;
    for page in ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md"] {
        let text = fs::read_to_string(Path::new(ROOT).join(page)).unwrap();
        // Blocks of code are no sentences.
        let sentences: String = text.split("```").step_by(2).collect();
        for name in quoted(&sentences) {
            let known = folders.iter().any(|folder| name.starts_with(folder));
            for machine in ["x86_64", "aarch64"] {
                let name = name.replace("arch/*", &format!("arch/{machine}"));
                if known && !name.contains([' ', '*']) {
                    seen += 1;
                    let path = Path::new(ROOT).join(&name);
                    let there = path.exists() || path.with_extension("rs").exists();
                    assert!(there, "{page}: {name}");
                }
            }
        }
    }
    assert!(seen > 100, "only {seen} paths were found");
}

/// Each path is there, each room has tests, and no test program is left out.
#[test]
fn where_the_tests_are() {
    let section = section("## Where the tests are\n");
    let names = quoted(&section);
    let is_there = |name: &str| {
        let path = Path::new(ROOT).join(name);
        path.exists() || path.with_extension("rs").exists()
    };
    for path in names.iter().filter(|name| name.contains('/')) {
        assert!(is_there(path), "{path}");
    }
    let files = ["proof/sim/tests", "kernel/mm/tests", "kernel/mm/src"];
    for file in files
        .iter()
        .flat_map(|folder| fs::read_dir(Path::new(ROOT).join(folder)).unwrap())
    {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let listed = names.iter().any(|listed| {
            let last = listed.rsplit('/').next().unwrap_or(listed);
            last.trim_end_matches(".rs") == name
        });
        assert!(
            listed || name == "common" || name == "lib",
            "{}",
            path.display()
        );
    }
}

#[test]
fn names_in_braces() {
    assert_eq!(quoted("a `b/{c,d}.rs` e `f`"), ["b/c.rs", "b/d.rs", "f"]);
}
