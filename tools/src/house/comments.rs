//! Comments wrap at [`WIDTH`] columns; rustfmt wraps code only.
use super::source::rust_files;
use anyhow::Result;
use std::fs;
use std::path::Path;

/// The last column of a comment.
pub const WIDTH: usize = 100;

/// Folders and files whose comments are not wrapped yet, from the root of the repository.
const NOT_YET: &[&str] = &["arch", "kernel", "tools", "userland"];

/// Comments of the repository that are too wide: `path:line`.
pub fn wide(root: &Path) -> Result<Vec<String>> {
    let mut paths = Vec::new();
    rust_files(root, &mut paths)?;
    let mut found = Vec::new();
    for path in paths {
        let relative = path
            .strip_prefix(root)?
            .to_string_lossy()
            .replace('\\', "/");
        if NOT_YET
            .iter()
            .any(|folder| Path::new(&relative).starts_with(folder))
        {
            continue;
        }
        let text = fs::read_to_string(&path)?;
        found.extend(wide_lines(&text).map(|line| format!("{relative}:{line}")));
    }
    Ok(found)
}

/// The numbers of the lines of `text` that are comments, wider than they may be, and could be
/// narrower: rows of tables and words without a blank cannot.
fn wide_lines(text: &str) -> impl Iterator<Item = usize> {
    let wide = text.lines().enumerate().filter(|(_, line)| {
        let comment = line.trim_start();
        let words = comment.trim_start_matches(['/', '!', ' ']);
        comment.starts_with("//")
            && line.chars().count() > WIDTH
            && words.contains(' ')
            && !words.starts_with('|')
    });
    wide.map(|(index, _)| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_wide() {
        let long = "word ".repeat(20);
        let text = format!(
            "//! {long}\nfn f() {{\n    // {long}\n    g(\"{long}{long}\");\n}}\n/// short\n//! | {long} |\n// {}\n",
            "x".repeat(100)
        );
        let found: Vec<usize> = wide_lines(&text).collect();
        assert_eq!(found, [1, 3]);
        let just = format!("// {}", "é ".repeat(48) + "x");
        assert_eq!(
            (just.chars().count(), wide_lines(&just).next()),
            (100, None)
        );
    }
}
