//! Results of tests: progress while they run, failures in full, one line at the end, and JUnit for
//! other programs.
use super::levels;
use super::spent::{self, Spent};
use console::style;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
pub use tools::host::outcome::Outcome;
use tools::host::workers;

/// How often progress is said.
const AGAIN: Duration = Duration::from_secs(30);

/// Lines of a failure's output that are printed again at the end: its first and its last ones. Of a
/// random test the last ones have its seed.
const REPEATED: [usize; 2] = [12, 8];

/// A test and its end.
#[derive(Clone, Debug)]
pub struct Case {
    /// `level.architecture.name`.
    pub name: String,
    /// How it ended.
    pub outcome: Outcome,
    /// How long it took, where that is known.
    pub duration: Option<Duration>,
}

impl Case {
    /// What the names of a way to boot begin with that is skipped as one.
    pub fn skipped_as_a_whole(&self) -> Option<String> {
        let is_way = self.name.starts_with("way.") && self.name.matches('.').count() == 1;
        (is_way && matches!(self.outcome, Outcome::Skipped(_))).then(|| self.name.clone() + ".")
    }
}

/// Collects cases from several threads.
#[derive(Debug, Default)]
pub struct Report {
    cases: Mutex<Vec<Case>>,
    spent: Mutex<Spent>,
    progress: Mutex<Progress>,
}

/// When progress was said last.
#[derive(Debug)]
struct Progress {
    planned: usize,
    said: Instant,
    started: Instant,
}

impl Default for Progress {
    fn default() -> Progress {
        Progress {
            planned: 0,
            said: Instant::now(),
            started: Instant::now(),
        }
    }
}

impl Report {
    /// Cases of these names are to come.
    pub fn expect<'a>(&self, names: impl Iterator<Item = &'a str>) {
        let names: Vec<&str> = names.collect();
        self.progress().planned = names.len();
        self.spent().expect(names.into_iter());
        self.say_progress("");
    }

    /// How long the last run took for what begins with one of these, in milliseconds.
    pub fn expected(&self, names: &[String]) -> u64 {
        self.spent().of_last(names)
    }

    /// This thread begins with other cases.
    pub fn begins(&self) {
        self.spent().begins();
    }

    /// What this thread did since it began, or since its last case, was for this group.
    pub fn spent_for(&self, group: &str) {
        self.spent().add_to(group);
    }

    /// Takes a case and prints it.
    pub fn add(&self, name: impl Into<String>, outcome: Outcome, duration: Option<Duration>) {
        let case = Case {
            name: name.into(),
            outcome,
            duration,
        };
        self.spent().add(&case.name, duration);
        let name = case.name.clone();
        {
            let mut cases = self.lock();
            let mut out = std::io::stdout().lock();
            // The reader of standard output may be gone; the exit status is still right.
            let _ = writeln!(out, "{}", describe(&case)).and_then(|()| out.flush());
            cases.push(case);
        }
        if self.progress().said.elapsed() >= AGAIN {
            self.say_progress(&name);
        }
    }

    /// How many cases are left, and how long they take by what the last run says.
    fn say_progress(&self, name: &str) {
        let done = self.lock().len();
        let left = self.spent().left(workers::of_machines(None));
        let mut progress = self.progress();
        progress.said = Instant::now();
        if progress.planned <= 1 {
            return;
        }
        let time = left.map_or_else(String::new, |left| match left.as_secs() {
            seconds @ ..60 => format!(", about {seconds} s left"),
            seconds => format!(", about {} min left", seconds.div_ceil(60)),
        });
        let now = match name {
            "" => String::new(),
            name => format!(", now {name}"),
        };
        eprintln!("run.sh: {done} of {} cases{time}{now}", progress.planned);
    }

    /// Whether a case failed so far.
    pub fn has_failed(&self) -> bool {
        let failed = |case: &Case| matches!(case.outcome, Outcome::Failed(_));
        self.lock().iter().any(failed)
    }

    /// Prints where the time went, what the run `left` out, what failed, and the last line; returns
    /// the exit status.
    pub fn finish<'a>(&self, left: impl Iterator<Item = &'a str>) -> u8 {
        let cases = self.lock();
        let count = |wanted: fn(&Outcome) -> bool| {
            cases.iter().filter(|case| wanted(&case.outcome)).count()
        };
        let failed = count(|outcome| matches!(outcome, Outcome::Failed(_)));
        let skipped = count(|outcome| matches!(outcome, Outcome::Skipped(_)));
        let passed = cases.len() - failed - skipped;
        let mut text = self.spent().text();
        self.spent().keep();
        text += &left_out(left);
        for case in cases.iter() {
            if let Outcome::Failed(why) = &case.outcome {
                let _ = writeln!(text, "failed: {}", case.name);
                // Again: of a long output the end may be all that is kept.
                let lines: Vec<&str> = why.lines().collect();
                for line in ends(&lines) {
                    let _ = writeln!(text, "      | {line}");
                }
            }
        }
        let seconds = self.progress().started.elapsed().as_secs();
        let cpu = spent::cpu_seconds().map(|cpu| format!(", {cpu} s of CPUs"));
        let _ = writeln!(text, "in {seconds} s{}", cpu.unwrap_or_default());
        println!("{text}{passed} passed, {failed} failed, {skipped} skipped");
        // Nothing run is no success: a filter that matches nothing is a mistake.
        u8::from(failed > 0 || passed + skipped == 0)
    }

    /// What was added so far.
    pub fn cases(&self) -> Vec<Case> {
        self.lock().clone()
    }

    /// All cases as JUnit XML.
    pub fn junit(&self) -> String {
        junit(&self.lock())
    }

    fn progress(&self) -> std::sync::MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spent(&self) -> std::sync::MutexGuard<'_, Spent> {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Case>> {
        self.cases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A line for each kind of cases that a run leaves out: how many, in which level they are, and what
/// they find.
fn left_out<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut rows: BTreeMap<(&str, String), (usize, &str)> = BTreeMap::new();
    for name in names {
        if let Some(row) = levels::row_of(name) {
            let of = (row.names, levels::words(name));
            rows.entry(of).or_insert((0, row.finds)).0 += 1;
        }
    }
    let line = |((names, level), (count, finds)): (&(&str, String), &(usize, &str))| {
        format!("left out {count:>5} of {level}  {names}: {finds}\n")
    };
    rows.iter().map(line).collect()
}

/// The first and the last of a failure's lines, each of them once.
fn ends<'a>(lines: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    let [first, last] = REPEATED;
    let (head, rest) = lines.split_at(first.min(lines.len()));
    let tail = &rest[rest.len().saturating_sub(last)..];
    head.iter().chain(tail).copied()
}

fn describe(case: &Case) -> String {
    let time = case
        .duration
        .map(|duration| format!("  ({})", human(duration)))
        .unwrap_or_default();
    match &case.outcome {
        Outcome::Passed => format!("{}    {}{time}", style("ok").green(), case.name),
        Outcome::Skipped(reason) => format!("{}  {}: {reason}", style("skip").yellow(), case.name),
        Outcome::Failed(why) => {
            let indented: String = why
                .lines()
                .map(|line| format!("      | {line}\n"))
                .collect();
            format!(
                "{}  {}{time}\n{}",
                style("FAIL").red().bold(),
                case.name,
                indented.trim_end_matches('\n')
            )
        }
    }
}

fn human(duration: Duration) -> String {
    match duration.as_micros() {
        micros @ 0..10_000 => format!("{micros} us"),
        micros @ 10_000..10_000_000 => format!("{} ms", micros / 1000),
        micros => format!("{} s", micros / 1_000_000),
    }
}

fn junit(cases: &[Case]) -> String {
    let failed = cases
        .iter()
        .filter(|case| matches!(case.outcome, Outcome::Failed(_)))
        .count();
    let skipped = cases
        .iter()
        .filter(|case| matches!(case.outcome, Outcome::Skipped(_)))
        .count();
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let head = format!(
        "tests=\"{}\" failures=\"{failed}\" skipped=\"{skipped}\"",
        cases.len()
    );
    let _ = writeln!(xml, "<testsuites>\n<testsuite name=\"quire\" {head}>");
    for case in cases {
        let (class, name) = case.name.rsplit_once('.').unwrap_or(("", &case.name));
        let seconds = case.duration.unwrap_or_default().as_secs_f64();
        let _ = write!(
            xml,
            "<testcase classname=\"{}\" name=\"{}\" time=\"{seconds:.6}\"",
            escape(class),
            escape(name)
        );
        let _ = match &case.outcome {
            Outcome::Passed => writeln!(xml, "/>"),
            Outcome::Skipped(reason) => {
                writeln!(xml, "><skipped message=\"{}\"/></testcase>", escape(reason))
            }
            Outcome::Failed(why) => {
                let message = escape(why.lines().next().unwrap_or_default());
                writeln!(
                    xml,
                    "><failure message=\"{message}\">{}</failure></testcase>",
                    escape(why)
                )
            }
        };
    }
    xml.push_str("</testsuite>\n</testsuites>\n");
    xml
}

/// XML's five characters; control characters, which XML cannot carry, become question marks.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            '\n' | '\t' => escaped.push(character),
            character if character.is_control() => escaped.push('?'),
            character => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cases() -> [Case; 3] {
        let case = |name: &str, outcome| Case {
            name: name.to_owned(),
            outcome,
            duration: Some(Duration::from_millis(15)),
        };
        [
            case("host.mm.a", Outcome::Passed),
            case(
                "kernel.x86_64.b",
                Outcome::Failed("1 < 2\nand \u{1b}more".to_owned()),
            ),
            case("user.aarch64.c", Outcome::Skipped("no \"gcc\"".to_owned())),
        ]
    }

    #[test]
    fn xml() {
        let xml = junit(&cases());
        for part in [
            "tests=\"3\" failures=\"1\" skipped=\"1\"",
            "<testcase classname=\"host.mm\" name=\"a\" time=\"0.015000\"/>",
            "<failure message=\"1 &lt; 2\">1 &lt; 2\nand ?more</failure>",
            "<skipped message=\"no &quot;gcc&quot;\"/>",
        ] {
            assert!(xml.contains(part), "{part} is not in {xml}");
        }
    }

    #[test]
    fn lines() {
        let [a, b, c] = cases();
        assert_eq!(describe(&a), "ok    host.mm.a  (15 ms)");
        assert_eq!(
            describe(&b),
            "FAIL  kernel.x86_64.b  (15 ms)\n      | 1 < 2\n      | and \u{1b}more"
        );
        assert_eq!(describe(&c), "skip  user.aarch64.c: no \"gcc\"");
    }

    #[test]
    fn both_ends_are_repeated() {
        let lines: Vec<String> = (0..40).map(|n| n.to_string()).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let repeated = |count: usize| ends(&lines[..count]).collect::<Vec<_>>().len();
        assert_eq!([0, 3, 12, 15, 20, 40].map(repeated), [0, 3, 12, 15, 20, 20]);
        assert_eq!(ends(&lines).last(), Some("39"));
    }

    #[test]
    fn nothing_run_is_a_failure() {
        let report = Report::default();
        assert_eq!(report.finish(std::iter::empty()), 1);
        report.add("host.x", Outcome::Passed, None);
        assert_eq!(report.finish(std::iter::empty()), 0);
    }
}
