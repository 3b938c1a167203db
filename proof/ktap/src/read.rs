//! The parser of one line.

use crate::{Line, Note, TestResult};

impl<'a> Line<&'a str> {
    /// Parses a line, with or without its end; `None` when it is not one of KTAP's. TAP's version
    /// line, and the dash that TAP allows before a name, are read, too.
    pub fn read(line: &'a str) -> Option<Self> {
        let line = line.trim_end();
        if line.starts_with("KTAP version ") || line.starts_with("TAP version ") {
            return Some(Line::Version);
        }
        if let Some(number) = line.strip_prefix("1..") {
            return number.parse().ok().map(Line::Plan);
        }
        match line.strip_prefix('#') {
            Some(text) => Some(diagnostic(text.strip_prefix(' ').unwrap_or(text))),
            None => result(line).map(Line::Result),
        }
    }
}

fn diagnostic(text: &str) -> Line<&str> {
    if let Some(name) = text.strip_prefix("start ") {
        return Line::Start(name.trim());
    }
    match text.strip_prefix("test ") {
        Some(name) => Line::Listed(name.trim()),
        None => Line::Diagnostic(text),
    }
}

fn result(line: &str) -> Option<TestResult<&str>> {
    let (ok, rest) = match line.strip_prefix("not ok ") {
        Some(rest) => (false, rest),
        None => (true, line.strip_prefix("ok ")?),
    };
    let (number, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let (name, note) = match rest.split_once('#') {
        Some((name, text)) => (name, Some(note(text.trim()))),
        None => (rest, None),
    };
    Some(TestResult {
        ok,
        number: number.parse().ok()?,
        name: name.trim_start_matches(['-', ' ']).trim(),
        note,
    })
}

fn note(text: &str) -> Note<&str> {
    if let Some(reason) = text.strip_prefix("SKIP")
        && !reason.starts_with(|next: char| !next.is_whitespace())
    {
        return Note::Skip(reason.trim());
    }
    match text.strip_suffix(" us").and_then(|n| n.parse().ok()) {
        Some(time) => Note::Micros(time),
        None => Note::Text(text),
    }
}
