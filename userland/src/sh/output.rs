//! Output of the shell and of its built-in commands.
use crate::sys::{Errno, file};

/// `text` with its control characters shown, not done: an arrow key is typed as some.
fn shown(text: &str) -> String {
    let shown = |c: char| match c.is_control() {
        true => c.escape_default().collect(),
        false => String::from(c),
    };
    text.chars().map(shown).collect()
}

/// A line to standard error, from the shell itself.
pub fn complain(text: &str) {
    let _ = file::write_all(2, format!("sh: {}\n", shown(text)).as_bytes());
}

/// Writes to standard output: 0, or 1 with a message.
pub fn print(text: &str) -> i32 {
    done("write", file::write_all(1, text.as_bytes()))
}

/// The status: 0, or 1 with a message.
pub fn done(what: &str, result: Result<(), Errno>) -> i32 {
    match result {
        Ok(()) => 0,
        Err(e) => {
            complain(&format!("{what}: {e}"));
            1
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn control_characters_are_shown() {
        assert_eq!(super::shown("l\u{1b}[A's ä"), "l\\u{1b}[A's ä");
    }
}
