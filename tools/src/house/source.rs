//! A folder of Rust source, parsed, without its tests.
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use syn::spanned::Spanned;
use syn::{Attribute, File, Item, Meta};

/// A source file.
pub struct Source {
    /// Relative to the folder that was read, with slashes.
    pub path: String,
    /// Its syntax tree. Tests are included: see [`is_test`].
    pub file: File,
    /// Lines, those of tests left out.
    pub lines: usize,
}

/// Every source file of a folder, those of tests left out, in the order of their paths.
pub fn read(folder: &Path) -> Result<Vec<Source>> {
    let mut paths = Vec::new();
    rust_files(folder, &mut paths)?;
    let mut sources = Vec::new();
    let mut tests = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path)?;
        let relative = path.strip_prefix(folder)?.to_string_lossy();
        let source = parse(&relative.replace('\\', "/"), &text)?;
        tests.extend(test_files(&source));
        sources.push(source);
    }
    sources.retain(|source| !tests.contains(&source.path));
    Ok(sources)
}

/// One file.
pub fn parse(path: &str, text: &str) -> Result<Source> {
    let file = syn::parse_file(text).with_context(|| format!("cannot parse {path}"))?;
    let of_tests = file.items.iter().filter(|item| is_test(attributes(item)));
    let lines = text.lines().count() - of_tests.map(lines_of).sum::<usize>();
    Ok(Source {
        path: path.to_owned(),
        file,
        lines,
    })
}

/// The Rust files of a folder and of those below it, sorted.
pub fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()));
    let mut entries: Vec<PathBuf> = entries?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                rust_files(&path, found)?;
            }
        } else if name.ends_with(".rs") {
            found.push(path);
        }
    }
    Ok(())
}

/// Lines that something takes, its attributes and documentation included.
pub fn lines_of(item: &impl Spanned) -> usize {
    let span = item.span();
    span.end().line + 1 - span.start().line
}

/// Whether something is compiled for tests only.
pub fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg") => list.tokens.to_string() == "test",
        meta => meta.path().is_ident("test"),
    })
}

/// The attributes of an item.
pub fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Modules of a file, `a` and `a/b`: `lib.rs` and `main.rs` have none, `a/mod.rs` has `a`.
pub fn module(path: &str) -> &str {
    let path = path.trim_end_matches(".rs");
    match path {
        "lib" | "main" => "",
        _ => path.strip_suffix("/mod").unwrap_or(path),
    }
}

/// The files of modules that a file declares for its tests.
fn test_files(source: &Source) -> Vec<String> {
    let of_tests = source.file.items.iter().filter_map(|item| match item {
        Item::Mod(inner) if inner.content.is_none() && is_test(&inner.attrs) => Some(&inner.ident),
        _ => None,
    });
    let parent = module(&source.path);
    let file = |name: String| match parent {
        "" => format!("{name}.rs"),
        _ => format!("{parent}/{name}.rs"),
    };
    of_tests.map(|name| file(name.to_string())).collect()
}
