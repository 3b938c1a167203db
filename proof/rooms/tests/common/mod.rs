//! The project's files, by their paths from its root.

use std::fs;
use std::path::{Path, PathBuf};

/// A source file.
pub struct File {
    /// Its path from the root of the project.
    pub path: String,
    /// Its text without comments and tests.
    pub code: String,
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The text of a file.
pub fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The source files under a folder, in order.
pub fn files(folder: &str) -> Vec<File> {
    let root = root();
    let sources = rooms::read(&root.join(folder));
    assert!(!sources.is_empty(), "no sources in {folder}");
    let file = |path: &Path| File {
        path: path
            .strip_prefix(&root)
            .expect("a file below the root")
            .to_string_lossy()
            .into_owned(),
        code: rooms::code(&fs::read_to_string(path).expect("a source file")),
    };
    sources.iter().map(|source| file(&source.file)).collect()
}

/// The members of the workspace.
pub fn crates() -> Vec<String> {
    let manifest = text("Cargo.toml");
    let members = between(&manifest, "members = [", "]");
    let names = members.split('"').skip(1).step_by(2);
    names.map(str::to_owned).collect()
}

/// What stands between two texts.
pub fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let rest = text.split_once(from).unwrap_or_else(|| panic!("{from}")).1;
    rest.split_once(to).map_or(rest, |(inside, _)| inside)
}

/// A table of a manifest, line by line; nothing when it is not there.
pub fn table<'a>(manifest: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let from = format!("\n[{name}]\n");
    let rest = manifest.split_once(&from).map_or("", |(_, rest)| rest);
    rest.lines().take_while(|line| !line.starts_with('['))
}
