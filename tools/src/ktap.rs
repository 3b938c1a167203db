//! Reads KTAP 1 and TAP from a console that also carries other lines.
use crate::report::Outcome;
use std::time::Duration;

/// One finished test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The description: the test's name.
    pub name: String,
    /// `ok` or `not ok`.
    pub ok: bool,
    /// The reason of a `# SKIP`.
    pub skip: Option<String>,
    /// From `# N us` behind the name.
    pub duration: Option<Duration>,
    /// What was printed since the test before it.
    pub output: String,
}

impl Line {
    /// The same for the report.
    pub fn outcome(&self) -> Outcome {
        match (&self.skip, self.ok) {
            (Some(reason), _) => Outcome::Skipped(reason.clone()),
            (None, true) => Outcome::Passed,
            (None, false) => Outcome::Failed(self.output.clone()),
        }
    }
}

/// What a console has said so far.
#[derive(Debug, Default)]
pub struct Parser {
    rest: String,
    output: String,
    /// Finished tests, in order.
    pub done: Vec<Line>,
    /// Named by `# start NAME` and not finished.
    pub running: Option<String>,
    /// Names listed as `# test NAME`.
    pub listed: Vec<String>,
    /// From `1..N`.
    pub planned: Option<usize>,
}

impl Parser {
    /// Takes a piece of the console, cut anywhere.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.rest.push_str(&String::from_utf8_lossy(bytes));
        while let Some(end) = self.rest.find('\n') {
            let line: String = self.rest.drain(..=end).collect();
            self.line(line.trim_end_matches(['\r', '\n']));
        }
    }

    /// What was printed since the last finished test, an unfinished line included.
    pub fn pending(&self) -> String {
        format!("{}{}", self.output, self.rest)
    }

    /// Whether every planned test has ended.
    pub fn complete(&self) -> bool {
        self.planned
            .is_some_and(|planned| self.done.len() >= planned)
    }

    fn line(&mut self, line: &str) {
        if let Some(name) = line.strip_prefix("# start ") {
            self.running = Some(name.trim().to_owned());
            self.output.clear();
        } else if let Some(name) = line.strip_prefix("# test ") {
            self.listed.push(name.trim().to_owned());
        } else if let Some(planned) = plan(line) {
            self.planned = Some(planned);
        } else if let Some(mut result) = result(line) {
            result.output = std::mem::take(&mut self.output);
            self.running = None;
            self.done.push(result);
        } else if !line.starts_with("KTAP version ") && !line.starts_with("TAP version ") {
            self.output.push_str(line);
            self.output.push('\n');
        }
    }
}

fn plan(line: &str) -> Option<usize> {
    line.strip_prefix("1..")?.trim().parse().ok()
}

/// `ok 1 - name # SKIP reason`, `not ok 2 name # 12 us`: the dash, the directive and the time may
/// be absent.
fn result(line: &str) -> Option<Line> {
    let (ok, rest) = match line.strip_prefix("not ok ") {
        Some(rest) => (false, rest),
        None => (true, line.strip_prefix("ok ")?),
    };
    let (number, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    number.parse::<usize>().ok()?;
    let (name, directive) = rest.split_once(" # ").unwrap_or((rest, ""));
    let skip = directive
        .strip_prefix("SKIP")
        .map(|reason| reason.trim().to_owned());
    let micros = directive
        .strip_suffix(" us")
        .and_then(|number| number.trim().parse().ok());
    Some(Line {
        name: name.trim().trim_start_matches("- ").to_owned(),
        ok,
        skip,
        duration: micros.map(Duration::from_micros),
        output: String::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_with_noise() {
        let mut parser = Parser::default();
        let text = "[ 0.1] boot noise\r\nKTAP version 1\r\n1..4\r\n# start mm.a\r\n# one\r\nok 1 mm.a # 12 us\r\n\
                    # start mm.b\r\n# b.rs:1: x is 1, but y is 2\r\nnot ok 2 mm.b # 3 us\r\nok 3 - c d # SKIP no disk\r\n\
                    # start mm.e\r\nPANIC: ou";
        // Cut in the middle of everything.
        for piece in text.as_bytes().chunks(7) {
            parser.feed(piece);
        }
        assert_eq!(
            (parser.planned, parser.complete(), parser.running.as_deref()),
            (Some(4), false, Some("mm.e"))
        );
        assert_eq!(parser.pending(), "PANIC: ou");
        let [a, b, c] = &parser.done[..] else {
            panic!("{:?}", parser.done)
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

    #[test]
    fn not_results() {
        for line in ["okay 1 x", "ok then", "not ok", "1..x", "[ 0.1] ok 1 x"] {
            assert!(result(line).is_none() && plan(line).is_none(), "{line}");
        }
    }
}
