//! Breaks that are drawn: `mutants.drawn.N`. All that compile that way are built into one set of
//! programs and one kernel, in which a number chooses; the others are built one by one.
use super::super::{Program, cargo, programs};
use super::breaks::{self, Break};
use super::compiler::errors;
use super::probe::{Probe, cheapest_first};
use super::suites::Kernel;
use super::tree::Tree;
use crate::test::job::Job;
use anyhow::{Context, Result, ensure};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::process::Command;
use std::time::Duration;
use tools::host::outcome::Outcome;
use tools::host::{progress, workers, workspace};
use tools::machine::linux::sha256;

/// Numbers of breaks.
type Numbers = BTreeSet<usize>;

/// The breaks that were drawn, by their numbers.
struct Drawn {
    breaks: BTreeMap<usize, Break>,
    /// Those that can be chosen when a program runs.
    chosen: Numbers,
}

/// What became of a break.
enum End {
    Found {
        by: String,
        took: Duration,
    },
    /// So many tests came to it.
    Survives(usize),
}

/// Draws, and tries those that the filter matches.
pub fn run(job: &Job<'_>, count: usize, by: &str) -> Result<()> {
    ensure!(
        (1..=64).contains(&count),
        "from 1 to 64 breaks can be drawn"
    );
    let mut tree = Tree::new()?;
    let all = in_order(breaks::list(tree.root())?, by);
    println!("{} breaks, {} drawn by {}", all.len(), count, by);
    let drawn = Drawn::settle(&mut tree, &all, count)?;
    let wanted = |number: &usize| job.wants(&format!("mutants.drawn.{number}"));
    let wanted: Numbers = drawn.breaks.keys().copied().filter(wanted).collect();
    if job.list {
        let line = |n: &usize| println!("mutants.drawn.{n}  {}", drawn.breaks[n].name);
        wanted.iter().for_each(line);
        return Ok(());
    }
    let nothing = std::fs::read_to_string(workspace::root().join("docs/mutants.md"))?;
    let say = |number, end| report(number, &drawn.breaks[&number], end, &nothing, job);
    let mut sound = Sound::default();
    let together: Vec<usize> = wanted.intersection(&drawn.chosen).copied().collect();
    if !together.is_empty() {
        drawn.write(&mut tree)?;
        drawn.trial(&tree, &together, &mut sound, &say)?;
    }
    for number in wanted.difference(&drawn.chosen) {
        tree.alone(&drawn.breaks[number])?;
        drawn.trial(&tree, &[*number], &mut sound, &say)?;
    }
    Ok(())
}

/// All breaks in the order in which `by` draws them. A change in one place of the source leaves the
/// order of the others as it is.
fn in_order(all: Vec<Break>, by: &str) -> Vec<Break> {
    let mut alike = HashMap::<String, usize>::new();
    let mut keyed: Vec<(String, Break)> = Vec::new();
    for one in all {
        let name = format!("{} {}", one.file, one.lasting());
        let before = alike.entry(name.clone()).or_default();
        keyed.push((sha256(format!("{by} {before} {name}").as_bytes()), one));
        *before += 1;
    }
    keyed.sort_by(|a, b| a.0.cmp(&b.0));
    keyed.into_iter().map(|(_, one)| one).collect()
}

impl Drawn {
    /// The first `count` that compile.
    fn settle(tree: &mut Tree, all: &[Break], count: usize) -> Result<Drawn> {
        let mut next = all.iter();
        let mut drawn = Drawn {
            breaks: BTreeMap::new(),
            chosen: BTreeSet::new(),
        };
        while drawn.breaks.len() < count {
            let open = (0..count).filter(|number| !drawn.breaks.contains_key(number));
            let new: Numbers = open.collect();
            for number in &new {
                let one = next.next().context("there are no more breaks")?;
                drawn.breaks.insert(*number, one.clone());
            }
            drawn.chosen.extend(&new);
            for number in drawn.cannot_be_chosen(tree)? {
                drawn.chosen.remove(&number);
                tree.alone(&drawn.breaks[&number])?;
                if new.contains(&number) && !errors(tree, &drawn.packages(&[number]))?.is_empty() {
                    println!("does not compile: {}", drawn.breaks[&number].name);
                    drawn.breaks.remove(&number);
                }
            }
        }
        Ok(drawn)
    }

    /// The numbers of those that do not compile where others are in the same programs.
    fn cannot_be_chosen(&self, tree: &mut Tree) -> Result<Numbers> {
        let mut chosen = self.chosen.clone();
        loop {
            let breaks: Vec<_> = chosen.iter().map(|n| (*n, &self.breaks[n])).collect();
            for number in tree.choose(&breaks)? {
                chosen.remove(&number);
            }
            let numbers: Vec<usize> = chosen.iter().copied().collect();
            let errors = errors(tree, &self.packages(&numbers))?;
            if errors.is_empty() {
                return Ok(self.chosen.difference(&chosen).copied().collect());
            }
            let mut known = false;
            for error in &errors {
                if let Some(number) = error.number(tree)? {
                    known |= chosen.remove(&number);
                }
            }
            ensure!(known, "the copy does not compile: {}", errors[0].text);
        }
    }

    /// Writes those that can be chosen.
    fn write(&self, tree: &mut Tree) -> Result<()> {
        let chosen: Vec<_> = self.chosen.iter().map(|n| (*n, &self.breaks[n])).collect();
        let left = tree.choose(&chosen)?;
        ensure!(left.is_empty(), "{left:?} could be chosen before");
        Ok(())
    }

    fn packages(&self, numbers: &[usize]) -> BTreeSet<&'static str> {
        numbers.iter().map(|n| self.breaks[n].package()).collect()
    }

    /// Builds what some breaks are in, and has tests look for each: all those that are quick first.
    /// What the tests cost with nothing broken is kept in `sound`; where one break is alone it is
    /// all that is known.
    fn trial(
        &self,
        tree: &Tree,
        numbers: &[usize],
        sound: &mut Sound,
        say: &(dyn Fn(usize, End) + Sync),
    ) -> Result<()> {
        let alone = !self.chosen.contains(&numbers[0]);
        let mut probes = Vec::new();
        if numbers.iter().any(|n| !self.breaks[n].is_of_kernel()) {
            let programs = programs("building the tests, broken", &mut tests(tree))?;
            probes = Probe::of(&programs, Program::prefix)?;
            if alone {
                probes = sound.order(probes);
            } else {
                probes = progress::during("timing the tests", || cheapest_first(probes))?;
                sound.learn(&probes);
            }
        }
        let trial = Trial {
            probes,
            kernel: Kernel::of(tree.root()),
            alone,
        };
        let look = |numbers: &[usize], long: bool| -> Result<Vec<usize>> {
            let found = workers::map(numbers, workers::cpus(), |number| {
                let one = &self.breaks[number];
                let end = match long {
                    false => trial.look(*number, one)?,
                    true => trial.look_long(*number, one)?,
                };
                let found = end.is_some();
                end.into_iter().for_each(|end| say(*number, end));
                anyhow::Ok((!found).then_some(*number))
            });
            let found: Vec<_> = found.into_iter().collect::<Result<_>>()?;
            Ok(found.into_iter().flatten().collect())
        };
        let left = look(numbers, false)?;
        look(&left, true)?;
        Ok(())
    }
}

/// Tests of programs in which breaks are.
struct Trial<'a> {
    probes: Vec<Probe>,
    kernel: Kernel<'a>,
    /// One break is there, always on.
    alone: bool,
}

impl Trial<'_> {
    /// The cheap tests of the host that come to the break, and the suites of the kernel.
    fn look(&self, number: usize, one: &Break) -> Result<Option<End>> {
        let (cheap, _) = self.of(number, one);
        if let Some(found) = first(&cheap, number)? {
            return Ok(Some(found));
        }
        let found = self.kernel.finds((!self.alone).then_some(number as u32))?;
        Ok(found.map(|(by, took)| End::Found { by, took }))
    }

    /// The other tests of the host that come to it.
    fn look_long(&self, number: usize, one: &Break) -> Result<Option<End>> {
        let (cheap, costly) = self.of(number, one);
        let end = first(&costly, number)?;
        Ok(Some(
            end.unwrap_or(End::Survives(cheap.len() + costly.len())),
        ))
    }

    /// The cheap tests of the host and the others that come to a break.
    fn of(&self, number: usize, one: &Break) -> (Vec<&Probe>, Vec<&Probe>) {
        let reach = |probe: &&Probe| !one.is_of_kernel() && (self.alone || probe.may_reach(number));
        let probes = self.probes.iter().filter(reach);
        probes.partition(|probe| !probe.is_costly())
    }
}

/// The first of some tests that finds a break.
fn first(probes: &[&Probe], number: usize) -> Result<Option<End>> {
    let number = number.to_string();
    for probe in probes {
        if let Some(took) = probe.finds(&[("DRAWN", &number)])? {
            let by = probe.name.clone();
            return Ok(Some(End::Found { by, took }));
        }
    }
    Ok(None)
}

/// What tests cost with nothing broken.
#[derive(Default)]
struct Sound(HashMap<String, Duration>);

impl Sound {
    fn learn(&mut self, probes: &[Probe]) {
        let quick = probes.iter().filter(|probe| !probe.is_costly());
        self.0
            .extend(quick.filter_map(|probe| Some((probe.name.clone(), probe.sound().ok()?.took))));
    }

    /// Cheapest first. Those that are not known are taken for sound, and come last.
    fn order(&self, mut probes: Vec<Probe>) -> Vec<Probe> {
        for probe in &mut probes {
            probe.is_sound(self.0.get(&probe.name).copied());
        }
        probes.sort_by_key(|probe| {
            let took = self.0.get(&probe.name);
            (took.is_none(), took.copied())
        });
        probes
    }
}

/// Says what became of a break.
fn report(number: usize, one: &Break, end: End, nothing: &str, job: &Job<'_>) {
    let name = format!("mutants.drawn.{number}");
    let says = format!("{} {}", one.file, one.lasting().trim());
    let (words, outcome, took) = match end {
        End::Found { by, took } => (format!("found by {by}"), Outcome::Passed, Some(took)),
        End::Survives(_) if nothing.contains(&format!("`{says}`")) => {
            let why = format!("changes nothing, says docs/mutants.md: {}", one.name);
            ("survives".to_owned(), Outcome::Skipped(why), None)
        }
        End::Survives(tests) => {
            let why = format!(
                "survives {tests} tests of the host that come to it\n{}",
                one.diff
            );
            ("survives".to_owned(), Outcome::Failed(why), None)
        }
    };
    println!("      | {}: {words}", one.name);
    job.report.add(name, outcome, took);
}

/// What can find a break of the memory manager or of the account on the host.
fn tests(tree: &Tree) -> Command {
    let mut command = cargo(&[
        "test",
        "--package=arch-sim",
        "--package=mm",
        "--package=own",
    ]);
    command.current_dir(tree.root());
    command.env("CARGO_TARGET_DIR", Tree::target());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draw_stays_when_other_lines_move() {
        let named = |names: &[&str]| -> Vec<String> {
            let breaks = names
                .iter()
                .map(|name| Break::named("kernel/mm/src/a.rs", name));
            let drawn = in_order(breaks.collect(), "1988d366");
            drawn
                .iter()
                .map(|one| one.lasting().trim().to_owned())
                .collect()
        };
        let first = named(&["a.rs:1:2: b", "a.rs:3:2: c", "a.rs:4:2: c", "a.rs:4:7: d"]);
        let moved = named(&[
            "a.rs:9:2: b",
            "a.rs:10:2: c",
            "a.rs:14:2: c",
            "a.rs:14:7: d",
        ]);
        assert_eq!(first, moved);
        let other = in_order(
            (0..64)
                .map(|n| Break::named("x.rs", &format!("x.rs:1:1: {n}")))
                .collect(),
            "other",
        );
        let one = in_order(
            (0..64)
                .map(|n| Break::named("x.rs", &format!("x.rs:1:1: {n}")))
                .collect(),
            "one",
        );
        assert_ne!(other, one);
    }
}
