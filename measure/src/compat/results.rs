//! What a test program says, from its console: results in KTAP, or its exit status alone.
use ktap::{Line, Note};
use std::collections::BTreeMap;
use tools::args::Side;
use tools::host::arch::Arch;
use tools::machine::console::Boot;
use tools::machine::guest::End;

/// What the script in the guest prints before the exit status of the program.
pub const ENDED: &str = "compat: it ended with ";
/// And where it runs several: before the name and the exit status of each.
pub const EACH: &str = "compat: ";

/// How a test ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Ok,
    Failed,
    Skipped,
}

impl Verdict {
    /// As in results.
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::Failed => "fail",
            Verdict::Skipped => "skip",
        }
    }
}

/// A program that has run.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// Its tests in order, and how each ended: `part: name` in a program of parts. A name that
    /// comes again has its number behind it.
    pub tests: Vec<(String, Verdict)>,
    /// Why it did not get to its end.
    pub cut: Option<String>,
}

/// By machine and program, what it says on each kernel.
pub type Runs = BTreeMap<(Arch, String), BTreeMap<Side, Ran>>;

/// What a kselftest program prints before the results of a part: `# [RUN] with base pages`.
const PART: &str = "# [RUN] ";

/// What kselftest programs exit with when nothing they test is there.
const SKIP: u8 = 4;
/// And those of LTP.
const TCONF: u8 = 32;

/// A result in KTAP.
fn result(line: &str) -> Option<(&str, Verdict)> {
    let Some(Line::Result(result)) = Line::read(line) else {
        return None;
    };
    let verdict = match (result.note, result.ok) {
        (Some(Note::Skip(_)), _) => Verdict::Skipped,
        (_, true) => Verdict::Ok,
        (_, false) => Verdict::Failed,
    };
    Some((result.name, verdict))
}

/// The end of one program of several.
fn one_of_several(line: &str) -> Option<(&str, Verdict)> {
    let (name, status) = line.strip_prefix(EACH)?.rsplit_once(": ")?;
    let verdict = match status.trim().parse::<u8>().ok()? {
        0 => Verdict::Ok,
        TCONF => Verdict::Skipped,
        _ => Verdict::Failed,
    };
    Some((name, verdict))
}

impl Ran {
    /// Reads a boot.
    pub fn of(boot: &Boot) -> Ran {
        let mut ran = Ran::default();
        let mut seen = BTreeMap::new();
        let (mut status, mut part) = (None, None);
        for line in boot.text.lines() {
            if let Some(text) = line.strip_prefix(ENDED) {
                status = text.trim().parse::<u8>().ok();
                break;
            }
            part = line.strip_prefix(PART).map(str::trim_end).or(part);
            let Some((name, verdict)) = one_of_several(line).or_else(|| result(line)) else {
                continue;
            };
            let name = match part {
                Some(part) if name.is_empty() || name == part => part.to_owned(),
                Some(part) => format!("{part}: {name}"),
                None => name.to_owned(),
            };
            let times: &mut usize = seen.entry(name.clone()).or_default();
            *times += 1;
            let name = match *times {
                1 => name,
                times => format!("{name} ({times})"),
            };
            ran.tests.push((name, verdict));
        }
        match status {
            Some(status) => ran.ended(status),
            None => ran.cut = Some(cut(boot)),
        }
        ran
    }

    /// Its exit status says something that no result did.
    fn ended(&mut self, status: u8) {
        let failed = self.count(Verdict::Failed) > 0;
        let verdict = match status {
            0 if !self.tests.is_empty() => return,
            0 => Verdict::Ok,
            SKIP if !self.tests.is_empty() => return,
            SKIP => Verdict::Skipped,
            _ if failed => return,
            _ => Verdict::Failed,
        };
        self.tests.push(("exit status".to_owned(), verdict));
    }

    /// How many ended so.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.tests.iter().filter(|(_, one)| *one == verdict).count()
    }

    /// How a test ended, if it did.
    pub fn verdict(&self, name: &str) -> Option<Verdict> {
        let found = self.tests.iter().find(|(test, _)| test == name);
        found.map(|(_, verdict)| *verdict)
    }
}

/// Why a boot has no exit status of the program.
fn cut(boot: &Boot) -> String {
    let panics = |line: &&str| line.contains("PANIC: ") || line.contains("Kernel panic");
    match (boot.text.lines().find(panics), boot.end) {
        (Some(line), _) => line.trim().to_owned(),
        (None, End::Timeout) => "it had not ended when its time was up".to_owned(),
        (None, end) => format!("the machine ended before it: {end:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(text: &str) -> Ran {
        Ran::of(&Boot {
            end: End::Status(0),
            text: text.to_owned(),
        })
    }

    #[test]
    fn results_and_their_names() {
        let ran = ran(
            "TAP version 13\n1..4\nok 1 one\nnot ok 2 one\nok 3 # SKIP no swap\nok 4 - two: 8 us\n\
             compat: it ended with 1\nok 5 behind the end\n",
        );
        let expected = [
            ("one", Verdict::Ok),
            ("one (2)", Verdict::Failed),
            ("", Verdict::Skipped),
            ("two: 8 us", Verdict::Ok),
        ];
        let expected = expected.map(|(name, verdict)| (name.to_owned(), verdict));
        assert_eq!((&ran.tests[..], &ran.cut), (&expected[..], &None));
        assert_eq!(ran.verdict("one (2)"), Some(Verdict::Failed));
    }

    #[test]
    fn parts_of_a_program() {
        let ran = ran(
            "# [INFO] detected\n# [RUN] fork ... small\nok 1 No leak\n# [RUN] fork ... huge\n\
             ok 2 No leak\nok 3 # SKIP no huge page\n# [RUN] all\nok 4 all\ncompat: it ended with 0\n",
        );
        let names: Vec<&str> = ran.tests.iter().map(|(name, _)| &**name).collect();
        let expected = [
            "fork ... small: No leak",
            "fork ... huge: No leak",
            "fork ... huge",
            "all",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn programs_that_only_exit() {
        for (status, verdict) in [
            (0, Verdict::Ok),
            (4, Verdict::Skipped),
            (1, Verdict::Failed),
            (139, Verdict::Failed),
        ] {
            let ran = ran(&format!("[PASS]\n{ENDED}{status}\n"));
            assert_eq!(ran.tests, [("exit status".to_owned(), verdict)]);
        }
        let ran = ran(&format!("ok 1 one\n{ENDED}139\n"));
        assert_eq!(ran.verdict("exit status"), Some(Verdict::Failed));
    }

    #[test]
    fn several_programs_in_a_boot() {
        let ran = ran(
            "fork01.c:20: TPASS: a child: 0\ncompat: fork01: 0\ncompat: fork02: 32\ncompat: fork03: 2\n\
             compat: it ended with 0\n",
        );
        let expected = [
            ("fork01", Verdict::Ok),
            ("fork02", Verdict::Skipped),
            ("fork03", Verdict::Failed),
        ];
        let expected = expected.map(|(name, verdict)| (name.to_owned(), verdict));
        assert_eq!((&ran.tests[..], &ran.cut), (&expected[..], &None));
    }

    #[test]
    fn boots_that_do_not_get_there() {
        let panicked = ran("ok 1 one\n[1.0] PANIC: no memory\n");
        assert_eq!(panicked.cut.as_deref(), Some("[1.0] PANIC: no memory"));
        assert_eq!(panicked.count(Verdict::Ok), 1);
        assert!(ran("").cut.unwrap().contains("Status(0)"));
    }
}
