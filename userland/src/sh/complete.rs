//! What tab completes: commands where one begins, files elsewhere.
use super::builtins;
use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper, Result};
use std::fs;

/// Completes words of a line.
pub struct Words(FilenameCompleter);

impl Words {
    /// Of files and of commands.
    pub fn new() -> Self {
        Words(FilenameCompleter::new())
    }
}

impl Completer for Words {
    type Candidate = Pair;

    fn complete(&self, line: &str, at: usize, context: &Context<'_>) -> Result<(usize, Vec<Pair>)> {
        let Some(start) = command(&line[..at]) else {
            return self.0.complete(line, at, context);
        };
        let path = std::env::var("PATH").unwrap_or_else(|_| "/bin".to_owned());
        let programs = path
            .split(':')
            .filter_map(|folder| fs::read_dir(folder).ok());
        let programs = programs
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut names: Vec<String> = builtins::names()
            .map(str::to_owned)
            .chain(programs)
            .collect();
        names.retain(|name| name.starts_with(&line[start..at]));
        names.sort();
        names.dedup();
        let pair = |name: String| Pair {
            replacement: format!("{name} "),
            display: name,
        };
        Ok((start, names.into_iter().map(pair).collect()))
    }
}

/// Where the name of a command begins that ends a line; none if what ends it is another word, or a
/// path.
fn command(line: &str) -> Option<usize> {
    let start = line.rfind(['|', ';', '&', '(']).map_or(0, |mark| mark + 1);
    let rest = &line[start..];
    let name = rest.trim_start();
    (!name.contains([' ', '/', '<', '>', '='])).then(|| line.len() - name.len())
}

impl Helper for Words {}
impl Highlighter for Words {}
impl Validator for Words {}
impl Hinter for Words {
    type Hint = String;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_begins_a_line_and_follows_what_ends_one() {
        for (line, start) in [
            ("", Some(0)),
            ("fol", Some(0)),
            ("a | fo", Some(4)),
            ("a;b", Some(2)),
        ] {
            assert_eq!(command(line), start, "{line}");
        }
        for line in ["cat f", "./a", "/bin/f", "echo >x", "A=b"] {
            assert_eq!(command(line), None, "{line}");
        }
    }
}
