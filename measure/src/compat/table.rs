//! Both kernels' results side by side.
use super::results::{Ran, Runs, Verdict};
use crate::columns::aligned;
use crate::markdown;
use std::fmt::Write;
use tools::args::Side;
use tools::host::arch::Arch;

/// A program on both kernels.
#[derive(Debug)]
pub struct Row<'a> {
    /// Its name.
    pub program: &'a str,
    /// What it says on Linux.
    pub linux: &'a Ran,
    /// And here.
    pub quire: &'a Ran,
}

impl Row<'_> {
    /// How many of the tests that pass on Linux pass here, and how many those are.
    pub fn same(&self) -> (usize, usize) {
        let linux = self.linux.count(Verdict::Ok);
        (linux - self.differences().count(), linux)
    }

    /// How a test of Linux ended here. Its name may have figures that the test has measured.
    fn here(&self, name: &str) -> Option<Verdict> {
        let words = |name: &str| name.replace(|c: char| c.is_ascii_digit(), "");
        let measured = |test: &&(String, Verdict)| {
            words(&test.0) == words(name) && self.linux.verdict(&test.0).is_none()
        };
        let alike = || self.quire.tests.iter().find(measured);
        let exact = self.quire.verdict(name);
        exact.or_else(|| alike().map(|(_, verdict)| *verdict))
    }

    /// The tests that pass on Linux and do not here, and what happens instead.
    pub fn differences(&self) -> impl Iterator<Item = (&str, &'static str)> {
        self.linux.tests.iter().filter_map(|(name, verdict)| {
            let instead = match (verdict, self.here(name)) {
                (Verdict::Ok, Some(Verdict::Skipped)) => "is skipped",
                (Verdict::Ok, Some(Verdict::Failed)) => "fails",
                (Verdict::Ok, None) => "is not run",
                _ => return None,
            };
            Some((&**name, instead))
        })
    }

    /// Its columns: the name, the numbers of both kernels, and the first difference.
    fn cells(&self) -> [String; 4] {
        let difference = self.difference().unwrap_or_default();
        let [linux, quire] = [self.linux, self.quire].map(counts);
        [self.program.to_owned(), linux, quire, difference]
    }

    /// The first of them; of a program that did not get to it, why.
    pub fn difference(&self) -> Option<String> {
        let (name, instead) = self.differences().next()?;
        Some(match (self.here(name), &self.quire.cut) {
            (None, Some(why)) => format!("{name}: {why}"),
            _ => format!("{name} {instead}"),
        })
    }
}

/// Headings.
const LINUX: &str = "Linux ok/fail/skip";
const QUIRE: &str = "Quire ok/fail/skip";
const FIRST: &str = "the first that Linux passes and Quire does not";

/// The table of each machine, of the programs that have run on both kernels, by [`text`] or
/// [`markdown`].
pub fn all(runs: &Runs, render: fn(Arch, &[Row<'_>]) -> String) -> String {
    let table = |arch: Arch| {
        let of_arch = runs.iter().filter(|((of, _), _)| *of == arch);
        let rows = of_arch.filter_map(|((_, program), ran)| {
            Some(Row {
                program,
                linux: ran.get(&Side::Linux)?,
                quire: ran.get(&Side::Quire)?,
            })
        });
        let rows: Vec<Row<'_>> = rows.collect();
        (!rows.is_empty()).then(|| render(arch, &rows))
    };
    let tables: Vec<String> = Arch::ALL.into_iter().filter_map(table).collect();
    tables.join("\n")
}

/// The table of one machine, for a terminal.
pub fn text(arch: Arch, rows: &[Row<'_>]) -> String {
    let heading = [arch.name(), LINUX, QUIRE, FIRST].map(str::to_owned);
    let lines = [heading].into_iter().chain(rows.iter().map(Row::cells));
    let lines = lines.map(|[program, linux, quire, end]| (vec![program, linux, quire], end));
    aligned(&lines.collect::<Vec<_>>()) + &summary(rows)
}

/// The same in Markdown.
pub fn markdown(arch: Arch, rows: &[Row<'_>]) -> String {
    let mut text = format!("## {arch}\n\n{}\n", summary(rows));
    text += &markdown::heading(["program", LINUX, QUIRE, FIRST]);
    for row in rows {
        let [program, linux, quire, difference] = row.cells();
        text += &markdown::row([program, linux, quire, difference.replace('|', "\\|")]);
    }
    text + &lost(rows)
}

/// All tests that pass on Linux and do not here, in Markdown.
fn lost(rows: &[Row<'_>]) -> String {
    let mut text = String::new();
    for row in rows {
        let lost = row.differences();
        let lost: Vec<String> = lost.map(|(name, how)| format!("`{name}` {how}")).collect();
        if !lost.is_empty() {
            let _ = writeln!(text, "- **{}**: {}", row.program, lost.join("; "));
        }
    }
    match text.is_empty() {
        true => text,
        false => format!("\nWhat passes on Linux and not on Quire:\n\n{text}"),
    }
}

fn counts(ran: &Ran) -> String {
    let all = [Verdict::Ok, Verdict::Failed, Verdict::Skipped];
    let [ok, failed, skipped] = all.map(|verdict| ran.count(verdict));
    let cut = if ran.cut.is_some() { " cut" } else { "" };
    format!("{ok}/{failed}/{skipped}{cut}")
}

fn summary(rows: &[Row<'_>]) -> String {
    let same = rows.iter().map(Row::same);
    let (here, linux) = same.fold((0, 0), |(a, b), (c, d)| (a + c, b + d));
    let percent = 100.0 * here as f64 / linux.max(1) as f64;
    format!("Of {linux} tests that pass on Linux, {here} pass on Quire: {percent:.1} %.\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::has;

    fn ran(tests: &[(&str, Verdict)]) -> Ran {
        let tests = tests.iter().map(|(name, how)| ((*name).to_owned(), *how));
        Ran {
            tests: tests.collect(),
            cut: None,
        }
    }

    #[test]
    fn what_differs() {
        use Verdict::{Failed, Ok, Skipped};
        let linux = ran(&[("a", Failed), ("b", Ok), ("c", Ok), ("d", Skipped)]);
        let mut quire = ran(&[("a", Ok), ("b", Ok), ("c", Skipped), ("d", Failed)]);
        fn row<'a>(linux: &'a Ran, quire: &'a Ran) -> Row<'a> {
            let program = "cow";
            Row {
                program,
                linux,
                quire,
            }
        }
        assert_eq!(row(&linux, &quire).same(), (1, 2));
        let difference = row(&linux, &quire).difference();
        assert_eq!(difference.as_deref(), Some("c is skipped"));
        let page = markdown(Arch::X86_64, &[row(&linux, &quire)]);
        assert!(
            page.ends_with("on Quire:\n\n- **cow**: `c` is skipped\n"),
            "{page}"
        );
        let text = text(Arch::X86_64, &[row(&linux, &quire)]);
        has(&text, "2/1/1");
        assert!(text.ends_with("Of 2 tests that pass on Linux, 1 pass on Quire: 50.0 %.\n"));
        quire.tests.truncate(2);
        quire.cut = Some("PANIC: no".to_owned());
        let difference = row(&linux, &quire).difference();
        assert_eq!(difference.as_deref(), Some("c: PANIC: no"));
        let all = ran(&[("b", Ok), ("c", Ok)]);
        assert_eq!(row(&linux, &all).difference(), None);
        let measured = |name| ran(&[("a", Ok), (name, Ok), ("on 64 kB", Ok)]);
        let (linux, quire) = (measured("8 faults (0.1 %)"), measured("12 faults (0.0 %)"));
        assert_eq!(row(&linux, &quire).same(), (3, 3));
        let linux = ran(&[("on 64 kB", Ok), ("on 32 kB", Ok)]);
        assert_eq!(row(&linux, &quire).same(), (1, 2));
    }
}
