//! Comments wrap at [`WIDTH`] columns; rustfmt wraps code only.
use super::source::rust_files;
use anyhow::Result;
use std::fs;
use std::path::Path;

/// The last column of a comment.
pub const WIDTH: usize = 100;

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
        let text = fs::read_to_string(&path)?;
        let lines = wide_lines(&text).into_iter();
        found.extend(lines.map(|line| format!("{relative}:{line}")));
    }
    Ok(found)
}

/// The numbers of the lines of `text` that are comments, wider than they may be, and could be
/// narrower: rows of tables, pictures between ``` and words without a blank cannot.
fn wide_lines(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut picture = false;
    for (index, line) in text.lines().enumerate() {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            picture = false;
            continue;
        };
        let words = comment.trim_start_matches(['/', '!']).trim();
        picture ^= words.starts_with("```");
        let fixed = picture || words.starts_with('|') || !words.contains(' ');
        if line.chars().count() > WIDTH && !fixed {
            found.push(index + 1);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::workspace;

    #[test]
    fn comments_of_this_repository_wrap() {
        let none: [String; 0] = [];
        assert_eq!(wide(workspace::root()).unwrap(), none);
    }

    #[test]
    fn what_is_too_wide() {
        let long = "word ".repeat(20);
        let found = |text: &str| wide_lines(text);
        assert_eq!(found(&format!("//! {long}\nf();\n    // {long}\n")), [1, 3]);
        let code = format!("g(\"{long}{long}\");\n/// short\n// {}\n", "x".repeat(100));
        assert_eq!(found(&code), [0; 0]);
        let pictures = format!("//! | {long} |\n/// ```text\n/// {long}\n/// ```\n/// {long}\n");
        assert_eq!(found(&pictures), [5]);
        let just = format!("// {}", "é ".repeat(48) + "x");
        assert_eq!((just.chars().count(), found(&just)), (100, Vec::new()));
    }
}
