//! The documentation holds together: links lead to files, and decisions are numbered one by one.
use std::fs;
use std::path::{Path, PathBuf};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

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
