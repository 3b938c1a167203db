//! `test --long`: instruments that look for defects by chance, each for the given number of minutes
//! and with new seeds each time. `long.host.seeds`: the memory manager on the simulated machine;
//! `long.ARCH.NAME`: programs on the kernel, booted again and again. A failure prints the seed that
//! repeats it.
use super::job::Job;
use super::programs::stress;
use super::stretch::Longest;
use anyhow::Result;
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};
use tools::host::arch::Arch;
use tools::host::outcome::Outcome;
use tools::machine::build::Built;
use tools::machine::console;
use tools::machine::guest::End;
use tools::machine::qemu::Machine;

/// One boot: it passes if it ends with status 0 and prints [`Round::says`].
struct Round {
    mem: &'static str,
    /// More words on the kernel's command line.
    words: &'static str,
    /// The program and its arguments; `{seed}` is another number each time, `{round}` counts from
    /// 1.
    run: &'static str,
    says: &'static str,
    smp: u32,
    /// Time counts instructions, and the program prints the longest stretches.
    icount: bool,
}

/// An instrument: its rounds in turn.
struct Instrument {
    name: &'static str,
    rounds: &'static [Round],
    /// Lines that begin so are the result of a round.
    result: &'static str,
}

/// `torture`, with this program line.
const fn torture(run: &'static str, mem: &'static str) -> Round {
    Round {
        mem,
        words: "",
        run,
        says: "torture: done",
        smp: 1,
        icount: false,
    }
}

/// 8 threads of one process, which also fill memory.
const fn threads(mem: &'static str) -> Round {
    let run = "torture 60 --seed {seed} --processes 1 --threads 8 --plays arena";
    torture(run, mem)
}

/// All that `torture` does, on several CPUs.
const fn on_cpus(smp: u32, words: &'static str) -> Round {
    Round {
        words,
        smp,
        ..torture("torture 60 --seed {seed}", "1G")
    }
}

/// Every scheme of the account, and fork with copied tables.
const fn on_cpus_with_all(smp: u32) -> [Round; 8] {
    [
        on_cpus(smp, ""),
        on_cpus(smp, "account=digits"),
        on_cpus(smp, "account=two-slot"),
        on_cpus(smp, "account=owner"),
        on_cpus(smp, "account=total"),
        on_cpus(smp, "account=per-page"),
        on_cpus(smp, "fork=batch"),
        on_cpus(smp, "account=unified mapcounts=atomic"),
    ]
}

/// A program with 128 MiB that ends with `fuzz: done`.
const fn fuzz(run: &'static str) -> Round {
    Round {
        mem: "128M",
        words: "",
        run,
        says: "fuzz: done",
        smp: 1,
        icount: false,
    }
}

/// Calls on one file at other places of each other in each round.
const fn pairs(smp: u32) -> Round {
    Round {
        smp,
        says: "abuse: pairs: done",
        ..torture("abuse pairs {round}", "256M")
    }
}

/// A program that asserts how long calls keep the machine.
const fn stretch(run: &'static str) -> Round {
    Round {
        mem: "256M",
        words: "",
        run,
        says: "longest stretch: ",
        smp: 1,
        icount: true,
    }
}

const INSTRUMENTS: &[Instrument] = &[
    Instrument {
        name: "torture",
        rounds: &[
            threads("256M"),
            threads("1G"),
            torture("torture 60 --seed {seed}", "256M"),
        ],
        result: "torture: ",
    },
    Instrument {
        name: "torture_smp4",
        rounds: &on_cpus_with_all(4),
        result: "torture: ",
    },
    Instrument {
        name: "torture_smp8",
        rounds: &on_cpus_with_all(8),
        result: "torture: ",
    },
    Instrument {
        name: "pairs",
        rounds: &[pairs(1), pairs(4)],
        result: "abuse: pairs: ",
    },
    Instrument {
        name: "full_memory",
        rounds: &[fuzz("fuzz --seed {seed} --seconds 300 --full yes")],
        result: "fuzz: ",
    },
    Instrument {
        name: "heap_fail",
        rounds: &[
            Round {
                says: "\nok 2 heap_fail.{round} ",
                ..fuzz("selftests --timeout 20 --heap-fail {round}")
            },
            fuzz("fuzz --seed {seed} --seconds 60 --heap-fail {round}"),
        ],
        result: "",
    },
    Instrument {
        name: "stretch",
        rounds: &[
            stretch("selftests"),
            stretch("fuzz --seed {seed} --calls 1000000"),
            stretch("abuse hang"),
            stretch("abuse memory"),
            Round {
                mem: "1G",
                ..stretch("abuse many")
            },
        ],
        result: "",
    },
];

/// The names of all instruments.
pub fn names() -> Vec<String> {
    let of = |arch: Arch| {
        let names = INSTRUMENTS.iter().map(|instrument| instrument.name);
        names
            .chain(["stress_ng"])
            .map(move |name| format!("long.{arch}.{name}"))
    };
    let mut names = vec!["long.host.seeds".to_owned()];
    names.extend(Arch::ALL.into_iter().flat_map(of));
    names
}

/// A boot that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(1200);

/// Runs every instrument of one architecture for `time`.
pub fn run(job: &Job<'_>, arch: Arch, built: &Built, time: Duration) {
    for instrument in INSTRUMENTS {
        job.case(format!("long.{arch}.{}", instrument.name), || {
            repeat(arch, built, instrument, time)
        });
    }
    job.case(format!("long.{arch}.stress_ng"), || {
        let mut machine = Machine::new(arch, built.image.clone());
        machine.smp = 2;
        stress::long(&machine, built)
    });
}

/// The rounds of an instrument in turn until `time` is over or one fails.
fn repeat(arch: Arch, built: &Built, instrument: &Instrument, time: Duration) -> Result<Outcome> {
    let end = Instant::now() + time;
    let name = format!("long.{arch}.{}", instrument.name);
    let mut longest: Option<Longest> = None;
    let mut number = 0;
    for round in instrument.rounds.iter().cycle() {
        number += 1;
        let seed = RandomState::new().hash_one(number) as u32;
        let fill = |text: &str| {
            text.replace("{seed}", &seed.to_string())
                .replace("{round}", &number.to_string())
        };
        let (run, says) = (fill(round.run), fill(round.says));
        let boot = console::boot(&machine(arch, built, round, &run), LIMIT)?;
        let recorded = Longest::of(&boot.text);
        let sound = boot.end == End::Status(0) && boot.text.contains(&says);
        if !sound || round.icount && recorded.is_none() {
            return Ok(Outcome::Failed(format!(
                "round {number}, {run} with {}, {} CPUs, {} ended with {:?}\n{}",
                round.mem, round.smp, round.words, boot.end, boot.text
            )));
        }
        let mut results = boot.text.lines();
        let last = results.rfind(|line| line.starts_with(instrument.result));
        println!(
            "      | {name} {number}: {}: {}",
            round.mem,
            last.unwrap_or_default()
        );
        longest = longest.into_iter().chain(recorded).reduce(Longest::join);
        if Instant::now() >= end {
            break;
        }
    }
    let longest = longest.map(|longest| format!(", {longest}"));
    println!(
        "      | {name}: {number} rounds, 0 panics, 0 leaks{}",
        longest.unwrap_or_default()
    );
    Ok(Outcome::Passed)
}

fn machine(arch: Arch, built: &Built, round: &Round, run: &str) -> Machine {
    let mut machine = Machine::new(arch, built.image.clone());
    machine.mem = round.mem.to_owned();
    machine.icount = round.icount;
    machine.smp = round.smp;
    machine.command_line = format!("quiet quire.noinput {} -- {run}", round.words);
    machine
}

#[cfg(test)]
mod tests {
    use super::on_cpus_with_all;
    use switches::Switch;

    #[test]
    fn every_scheme_of_the_account_is_tortured() {
        let rounds = on_cpus_with_all(4);
        for scheme in Switch::Account.words() {
            let words = format!("account={scheme}");
            let named = |words_of: &str| words_of.split(' ').any(|word| word == words);
            assert!(rounds.iter().any(|round| named(round.words)), "{words}");
        }
    }
}
