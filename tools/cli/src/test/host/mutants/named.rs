//! The mutants with a name, each on for a whole process: `MUTANT=NAME`.
use super::super::{Program, cargo, programs, with_cfg};
use super::probe::{Probe, cheapest_first};
use crate::test::job::Job;
use anyhow::{Context, Result};
use std::process::Command;
use std::time::Duration;
use tools::host::outcome::Outcome;
use tools::host::{progress, workers, workspace};

/// A mutant, and who finds it.
struct Mutant {
    krate: &'static str,
    name: String,
    found: Option<Found>,
    /// How many tests were tried.
    tried: usize,
}

struct Found {
    by: String,
    took: Duration,
    /// The test's time with nothing broken.
    sound: Duration,
}

/// Programs that may find the mutants of some crates.
struct Stage {
    what: &'static str,
    crates: &'static [&'static str],
    build: fn() -> Command,
    prefix: fn(&Program) -> String,
}

/// The models last: they are built anew with other atomics.
const STAGES: [Stage; 3] = [
    Stage {
        what: "building the tests of the memory manager",
        crates: &["mm", "own"],
        build: || {
            cargo(&[
                "test",
                "--package=arch-sim",
                "--package=mm",
                "--package=own",
            ])
        },
        prefix: Program::prefix,
    },
    Stage {
        what: "building the models of the memory manager",
        crates: &["mm"],
        build: || with_cfg("shuttle", &["--package=arch-sim", "--test=shuttle"]),
        prefix: |_| "host.shuttle".to_owned(),
    },
    Stage {
        what: "building the models",
        crates: &["own", "locks"],
        build: || {
            let models = ["--package=own", "--package=locks", "--features=own/mutants"];
            with_cfg("loom", &[&models[..], &["--test=loom*"]].concat())
        },
        prefix: |program| format!("host.loom.{}", program.target),
    },
];

/// Tries all that the filter matches.
pub fn run(job: &Job<'_>) -> Result<()> {
    let mut mutants = Vec::new();
    for krate in ["mm", "own", "locks"] {
        let wanted = |name: &String| job.wants(&full(name));
        mutants.extend(names(krate)?.into_iter().filter(wanted).map(|name| Mutant {
            krate,
            name,
            found: None,
            tried: 0,
        }));
    }
    if job.list {
        mutants
            .iter()
            .for_each(|mutant| println!("{}", full(&mutant.name)));
        return Ok(());
    }
    let mut costly: Vec<(Stage, Vec<Probe>)> = Vec::new();
    for stage in STAGES {
        if mutants.iter().any(|mutant| stage.is_for(mutant)) {
            let programs = programs(stage.what, &mut (stage.build)())?;
            let probes = Probe::of(&programs, stage.prefix)?;
            let mut probes = progress::during("timing the tests", || cheapest_first(probes))?;
            let cheap = probes.iter().take_while(|probe| !probe.is_costly()).count();
            let rest = probes.split_off(cheap);
            stage.look_for(&mut mutants, &probes, job)?;
            costly.push((stage, rest));
        }
    }
    for (stage, probes) in costly {
        stage.look_for(&mut mutants, &probes, job)?;
    }
    for mutant in mutants.iter().filter(|mutant| mutant.found.is_none()) {
        let why = format!("no test finds it: {} were tried", mutant.tried);
        job.report
            .add(full(&mutant.name), Outcome::Failed(why), None);
    }
    println!("{}", table(&mutants));
    Ok(())
}

fn full(name: &str) -> String {
    format!("mutants.{name}")
}

/// The names of a crate's mutants: the lines of its `mutant.rs` that are a name and a comma.
fn names(krate: &str) -> Result<Vec<String>> {
    let path = workspace::root().join(format!("kernel/{krate}/src/mutant.rs"));
    let text = std::fs::read_to_string(&path);
    Ok(rows(&text.with_context(|| {
        format!("cannot read {}", path.display())
    })?))
}

fn rows(text: &str) -> Vec<String> {
    let name = |line: &str| {
        let name = line.strip_prefix("    ")?.strip_suffix(',')?;
        let capital = name.starts_with(|first: char| first.is_ascii_uppercase());
        let letters = name.chars().all(char::is_alphanumeric);
        (capital && letters).then(|| name.to_owned())
    };
    text.lines().filter_map(name).collect()
}

impl Stage {
    fn is_for(&self, mutant: &Mutant) -> bool {
        mutant.found.is_none() && self.crates.contains(&mutant.krate)
    }

    /// Has tests look for the mutants that nothing has found yet.
    fn look_for(&self, mutants: &mut [Mutant], probes: &[Probe], job: &Job<'_>) -> Result<()> {
        let open = mutants.iter_mut().filter(|mutant| self.is_for(mutant));
        let mut open: Vec<&mut Mutant> = open.collect();
        let names: Vec<String> = open.iter().map(|mutant| mutant.name.clone()).collect();
        let found = workers::map(&names, workers::cpus(), |name| {
            let found = first(probes, name)?;
            if let Some(found) = &found.0 {
                job.report
                    .add(full(name), Outcome::Passed, Some(found.took));
                println!("      | found by {}", found.by);
            }
            anyhow::Ok(found)
        });
        for (mutant, found) in open.iter_mut().zip(found) {
            let (found, tried) = found?;
            mutant.found = found;
            mutant.tried += tried;
        }
        Ok(())
    }
}

/// The first test that finds a mutant, and how many were tried.
fn first(probes: &[Probe], name: &str) -> Result<(Option<Found>, usize)> {
    for (index, probe) in probes.iter().enumerate() {
        if let Some(took) = probe.finds(&[("MUTANT", name)])? {
            let sound = probe.sound()?.took;
            let found = Found {
                by: probe.name.clone(),
                took,
                sound,
            };
            return Ok((Some(found), index + 1));
        }
    }
    Ok((None, probes.len()))
}

/// Who finds what, in CPU seconds.
fn table(mutants: &[Mutant]) -> String {
    let seconds = |time: Duration| format!("{:.2}", time.as_secs_f64());
    let row = |mutant: &Mutant| {
        let (by, took, sound) = match &mutant.found {
            Some(found) => (found.by.as_str(), seconds(found.took), seconds(found.sound)),
            None => ("none", String::new(), String::new()),
        };
        let (krate, name, tried) = (mutant.krate, &mutant.name, mutant.tried);
        format!("| {krate} | {name} | {by} | {took} | {sound} | {tried} |\n")
    };
    let head = "| crate | mutant | found by | CPU s | CPU s without it | tests tried |\n\
                |---|---|---|---|---|---|\n";
    head.to_owned() + &mutants.iter().map(row).collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_those_of_the_crates() {
        let expected: Vec<&str> = mm::mutant::Mutant::ROWS
            .iter()
            .map(|(name, _)| *name)
            .collect();
        assert_eq!(names("mm").unwrap(), expected);
        let own = mm::own::mutant::Mutant::ALL.iter();
        let own: Vec<String> = own.map(|mutant| format!("{mutant:?}")).collect();
        assert_eq!(names("own").unwrap(), own);
        assert_eq!(
            names("locks").unwrap().len(),
            locks::mutant::Mutant::ALL.len()
        );
    }
}
