//! Tests on a kernel whose heap refuses their allocations: most fail, since calls are refused, and
//! the kernel must not panic, not leak, and need no more for allocations that cannot fail than its
//! reserve holds.
use crate::counters::{Missing, Table, free_frames};
use crate::harness::{GIVEN_UP, Outcome, RunOptions, Stop, Test, one, say};
use crate::heap_fail::MEASURE;
use crate::sys::time;
use ktap::{Line, Note, TestResult};
use std::fs;

/// The file with what calls needed from the reserve.
const FIGURES: &str = "/sys/kernel/mm/quire/heap_reserve";
/// Frames that a test may keep.
const SLACK: u64 = 8;
/// Seconds for a test whose calls are refused: it may wait for ever.
const PATIENCE: u64 = 2;
/// A test is repeated as often when frames are missing: the heap may grow once.
const RUNS: usize = 4;

/// The results of a round.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    passed: u32,
    refused: u32,
    leaked: u32,
}

/// A round in which calls are measured, then one for each of `rounds`, until one in which no
/// allocation was refused or `seconds` are over. Returns the number of faults of the kernel.
pub fn run(
    tests: &[&Test],
    options: &RunOptions,
    rounds: impl Iterator<Item = u32>,
    seconds: u64,
) -> u32 {
    let end = time::now() + seconds * 1_000_000_000;
    let mut faults = 0;
    say(&Line::<&str>::Version);
    for (number, from) in (1..).zip(std::iter::once(MEASURE).chain(rounds)) {
        let _ = fs::write(FIGURES, "0");
        let mut round = Round::default();
        for test in tests {
            round.add(test, options, from);
        }
        let (over, refusals) = report(number, from, &round);
        faults += round.leaked + u32::from(over);
        if from == MEASURE {
            faults += round.refused;
        } else if refusals == 0 || time::now() > end {
            break;
        }
    }
    faults
}

impl Round {
    fn add(&mut self, test: &Test, options: &RunOptions, from: u32) {
        let mut lost = Vec::new();
        let run = || {
            let options = RunOptions {
                heap_fail: from,
                timeout: match from {
                    MEASURE => options.timeout,
                    _ => options.timeout.min(PATIENCE),
                },
                ..*options
            };
            one(test, &options)
        };
        let mut outcome = Ok(());
        for _ in 0..RUNS {
            let before = free_frames();
            outcome = run();
            let (Ok(before), Ok(after)) = (before, free_frames()) else {
                outcome = Err(Stop::Fail("free frames are not counted".into()));
                break;
            };
            if after + SLACK >= before {
                return self.count(test, from, outcome);
            }
            lost.push(before - after);
        }
        self.leaked += 1;
        say(&Line::Diagnostic(format!(
            "{} with heap_fail {from}: frames lost in each run: {lost:?}; {outcome:?}",
            test.name
        )));
    }

    fn count(&mut self, test: &Test, from: u32, outcome: Outcome) {
        match outcome {
            Ok(()) | Err(Stop::Skip(_)) => self.passed += 1,
            Err(Stop::Fail(why)) => {
                self.refused += 1;
                // Whoever listens to the console takes a minute of silence for a hang.
                if from == MEASURE || why.starts_with(GIVEN_UP) {
                    let why = format!("{} with heap_fail {from}: {why}", test.name);
                    why.lines().for_each(|line| say(&Line::Diagnostic(line)));
                }
            }
        }
    }
}

/// Prints the result of a round. Returns whether a call needed more than the reserve holds, and
/// the number of refused allocations.
fn report(number: usize, from: u32, round: &Round) -> (bool, u64) {
    let text = fs::read_to_string(FIGURES).unwrap_or_default();
    let figures = Table::parse(FIGURES, &text);
    let over = exceeds(&figures).unwrap_or_else(|missing| {
        say(&Line::Diagnostic(missing));
        true
    });
    let line = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        line.unwrap_or("nothing").to_owned()
    };
    let Round {
        passed,
        refused,
        leaked,
    } = round;
    let name = match from {
        MEASURE => "heap_fail.measure".to_owned(),
        from => format!("heap_fail.{from}"),
    };
    say(&TestResult {
        ok: !over && *leaked == 0,
        number,
        name,
        note: Some(Note::Text(format!(
            "{passed} passed, {refused} failed, {leaked} leaked; {}, {}, {}",
            line("most"),
            line("largest"),
            line("refused"),
        ))),
    });
    (over, figures.get("refused").unwrap_or(u64::MAX))
}

/// Whether calls needed more than the reserve holds.
fn exceeds(figures: &Table) -> Result<bool, Missing> {
    let over = |need: &str, limit: &str| Ok(figures.get(need)? > figures.get(limit)?);
    Ok(over("most", "limit")? || over("largest", "block")?)
}
