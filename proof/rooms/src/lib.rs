//! Reads which modules of its own crate each source file names, for tests of the import order.
//!
//! A path counts in a `use` and in code, but not in comments nor behind `#[cfg(test)]`. Paths that
//! a macro builds are not found.

pub mod circles;
pub mod floors;

use std::fs;
use std::path::{Path, PathBuf};

/// A path of the crate itself that a source file names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Import {
    /// The line where it begins, from 1.
    pub line: usize,
    /// Its names from the crate's root on, the item's last; `*` is left out.
    pub path: Vec<String>,
    /// Written from the root (`crate::`) and not from the module above (`super::`).
    pub absolute: bool,
}

/// A source file of a crate.
#[derive(Debug)]
pub struct Source {
    /// Its path.
    pub file: PathBuf,
    /// Its module's names from the crate's root on; none for the root itself.
    pub module: Vec<String>,
    /// The paths that it names, in order.
    pub imports: Vec<Import>,
}

/// All source files under `src`, sorted. Panics when one cannot be read: this is for tests.
pub fn read(src: &Path) -> Vec<Source> {
    let mut files = Vec::new();
    collect(src, &mut files);
    files.sort();
    let source = |file: PathBuf| {
        let text = fs::read_to_string(&file).expect("a source file");
        let module = module_of(file.strip_prefix(src).expect("a file under src"));
        let imports = imports(&module, &text);
        Source {
            file,
            module,
            imports,
        }
    };
    files.into_iter().map(source).collect()
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("a directory of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// The module of a file by its path below `src`: `fs/mod.rs` and `fs.rs` are `fs`.
fn module_of(file: &Path) -> Vec<String> {
    let name = |part: std::path::Component<'_>| part.as_os_str().to_string_lossy().into_owned();
    let mut module: Vec<String> = file.with_extension("").components().map(name).collect();
    let is_root = module.len() == 1 && ["lib", "main"].contains(&module[0].as_str());
    if is_root || module.last().is_some_and(|last| last == "mod") {
        module.pop();
    }
    module
}

/// A file's text without comments and without its tests: everything behind `#[cfg(test)]`.
pub fn code(text: &str) -> String {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    code.lines().map(without_comment).collect()
}

/// The paths of its own crate that a file of `module` names.
pub fn imports(module: &[String], text: &str) -> Vec<Import> {
    let code = code(text);
    let mut found = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        if begins_a_path(&code[..at]) {
            let tree = &code[at + "crate::".len()..];
            add(&mut found, &code[..at], Vec::new(), tree, true);
        }
    }
    for (at, _) in code.match_indices("super::") {
        if begins_a_path(&code[..at]) {
            let (mut above, mut tree) = (module.to_vec(), &code[at..]);
            while let Some(rest) = tree.strip_prefix("super::") {
                above.pop();
                tree = rest;
            }
            add(&mut found, &code[..at], above, tree, false);
        }
    }
    found.sort_by_key(|import| import.line);
    found
}

fn without_comment(line: &str) -> String {
    let code = line.split("//").next().unwrap_or_default();
    format!("{code}\n")
}

/// Whether a path begins here: the text before is no part of one.
fn begins_a_path(before: &str) -> bool {
    let last = before.chars().next_back();
    !last.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':' || c == '$')
}

fn add(found: &mut Vec<Import>, before: &str, from: Vec<String>, tree: &str, absolute: bool) {
    let line = before.matches('\n').count() + 1;
    let mut paths = Vec::new();
    walk(tree, from, &mut paths);
    found.extend(paths.into_iter().map(|path| Import {
        line,
        path,
        absolute,
    }));
}

/// Reads a tree of names, `a::{b, c::d}`, all below `path`; returns what follows it.
fn walk<'a>(tree: &'a str, mut path: Vec<String>, paths: &mut Vec<Vec<String>>) -> &'a str {
    let mut rest = tree.trim_start();
    if let Some(group) = rest.strip_prefix('{') {
        rest = group;
        while !rest.trim_start().starts_with('}') && !rest.is_empty() {
            rest = walk(rest, path.clone(), paths);
            // `as name` is no part of the path.
            rest = &rest[rest.find([',', '}']).unwrap_or(rest.len())..];
            rest = rest.strip_prefix(',').unwrap_or(rest);
        }
        return rest.trim_start().strip_prefix('}').unwrap_or_default();
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
    if end > 0 && &rest[..end] != "self" {
        path.push(rest[..end].to_string());
    }
    match rest[end..].strip_prefix("::") {
        Some(below) if end > 0 => walk(below, path, paths),
        _ => {
            paths.push(path);
            &rest[end..]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(module: &str, text: &str) -> Vec<(usize, String)> {
        let module: Vec<String> = module.split("::").map(String::from).collect();
        let found = imports(&module, text).into_iter();
        found.map(|i| (i.line, i.path.join("::"))).collect()
    }

    #[test]
    fn paths_in_use_lines_and_code() {
        let text = "use crate::space::AddressSpace; // crate::no\nfn f() { crate::fault::x::<u8>() }\n#[cfg(test)]\nuse crate::check;";
        let wanted = [(1, "space::AddressSpace"), (2, "fault::x")];
        assert_eq!(paths("a", text), wanted.map(|(n, s)| (n, s.to_string())));
    }

    #[test]
    fn groups_over_lines() {
        let text =
            "\npub use crate::{\n    a::{self, B as C},\n    d::*,\n    e,\n};\nuse crate::f;";
        let wanted = [(2, "a"), (2, "a::B"), (2, "d"), (2, "e"), (7, "f")];
        assert_eq!(paths("x", text), wanted.map(|(n, s)| (n, s.to_string())));
    }

    #[test]
    fn the_module_above() {
        let text = "use super::{one, two::Three};\nuse super::super::four;\n$crate::no!();";
        let wanted = [(1, "a::one"), (1, "a::two::Three"), (2, "four")];
        assert_eq!(paths("a::b", text), wanted.map(|(n, s)| (n, s.to_string())));
    }

    #[test]
    fn modules_of_files() {
        for (file, module) in [
            ("main.rs", ""),
            ("fs/mod.rs", "fs"),
            ("fs.rs", "fs"),
            ("fs/tty/ioctl.rs", "fs::tty::ioctl"),
        ] {
            assert_eq!(module_of(Path::new(file)).join("::"), module);
        }
    }
}
