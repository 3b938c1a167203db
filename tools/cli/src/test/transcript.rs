//! A run's results, from a console that carries other lines, too.
use ktap::{Line, Note, TestResult};
use std::time::Duration;
use tools::host::outcome::Outcome;

/// A test that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The test's name.
    pub name: String,
    /// `ok` and not `not ok`.
    pub ok: bool,
    /// The reason of a `# SKIP`.
    pub skip: Option<String>,
    /// From `# N us` behind the name.
    pub duration: Option<Duration>,
    /// What was printed since the test before it.
    pub output: String,
}

impl Ended {
    fn new(result: TestResult<&str>, output: String) -> Self {
        let (skip, duration) = match result.note {
            Some(Note::Skip(reason)) => (Some(reason.to_owned()), None),
            Some(Note::Micros(time)) => (None, Some(Duration::from_micros(time))),
            Some(Note::Text(_)) | None => (None, None),
        };
        Ended {
            name: result.name.to_owned(),
            ok: result.ok,
            skip,
            duration,
            output,
        }
    }

    /// The same for the report.
    pub fn outcome(&self) -> Outcome {
        match (&self.skip, self.ok) {
            (Some(reason), _) => Outcome::Skipped(reason.clone()),
            (None, true) => Outcome::Passed,
            (None, false) => Outcome::Failed(self.output.clone()),
        }
    }
}

/// What a console has printed so far.
#[derive(Debug, Default)]
pub struct Transcript {
    /// A line without its end yet.
    rest: String,
    /// Lines since the last result.
    output: String,
    /// Results, in order.
    pub done: Vec<Ended>,
    /// Named by `# start NAME` and not ended.
    pub running: Option<String>,
    /// Names listed as `# test NAME`.
    pub listed: Vec<String>,
    /// From `1..N`.
    pub planned: Option<usize>,
}

impl Transcript {
    /// Takes a piece of the console, cut anywhere.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.rest.push_str(&String::from_utf8_lossy(bytes));
        while let Some(end) = self.rest.find('\n') {
            let line: String = self.rest.drain(..=end).collect();
            self.line(line.trim_end_matches(['\r', '\n']));
        }
    }

    /// What was printed since the last result, a line without its end included.
    pub fn pending(&self) -> String {
        format!("{}{}", self.output, self.rest)
    }

    /// Whether every planned test has ended.
    pub fn complete(&self) -> bool {
        self.planned
            .is_some_and(|planned| self.done.len() >= planned)
    }

    fn line(&mut self, text: &str) {
        match Line::read(text) {
            Some(Line::Version) => {}
            Some(Line::Plan(tests)) => self.planned = Some(tests),
            Some(Line::Listed(name)) => self.listed.push(name.to_owned()),
            Some(Line::Start(name)) => {
                self.running = Some(name.to_owned());
                self.output.clear();
            }
            Some(Line::Result(result)) => {
                let output = std::mem::take(&mut self.output);
                self.running = None;
                self.done.push(Ended::new(result, output));
            }
            Some(Line::Diagnostic(_)) | None => {
                self.output.push_str(text);
                self.output.push('\n');
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_with_noise() {
        let mut transcript = Transcript::default();
        let text = "[ 0.1] boot noise\r\nKTAP version 1\r\n1..4\r\n# start mm.a\r\n# one\r\nok 1 mm.a # 12 us\r\n\
                    # start mm.b\r\n# b.rs:1: x is 1, but y is 2\r\nnot ok 2 mm.b # 3 us\r\nok 3 - c d # SKIP no disk\r\n\
                    # start mm.e\r\nPANIC: ou";
        // Cut in the middle of everything.
        for piece in text.as_bytes().chunks(7) {
            transcript.feed(piece);
        }
        assert_eq!(
            (
                transcript.planned,
                transcript.complete(),
                transcript.running.as_deref()
            ),
            (Some(4), false, Some("mm.e"))
        );
        assert_eq!(transcript.pending(), "PANIC: ou");
        let [a, b, c] = &transcript.done[..] else {
            panic!("{:?}", transcript.done)
        };
        assert_eq!(
            (a.name.as_str(), a.ok, a.duration),
            ("mm.a", true, Some(Duration::from_micros(12)))
        );
        assert_eq!(a.output, "# one\n");
        assert_eq!(
            (b.ok, b.output.as_str()),
            (false, "# b.rs:1: x is 1, but y is 2\n")
        );
        assert_eq!(
            (c.name.as_str(), c.skip.as_deref()),
            ("c d", Some("no disk"))
        );
    }
}
