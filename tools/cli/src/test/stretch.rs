//! `stretch`: how long the kernel keeps the machine for one call. Under -icount the selftests, the
//! random calls and calls about very many of something assert it after each test, batch and case,
//! and print the longest at the end.
use super::job::Job;
use anyhow::Result;
use std::fmt;
use std::time::Duration;
use tools::host::arch::Arch;
use tools::host::outcome::Outcome;
use tools::machine::build::Built;
use tools::machine::console;
use tools::machine::guest::End;
use tools::machine::qemu::Machine;

const LIMIT: Duration = Duration::from_secs(600);

/// One boot, in which PID 1 runs one program.
struct Case {
    /// The name in `user.ARCH.stretch.NAME`.
    name: &'static str,
    run: &'static str,
    mem: &'static str,
}

const CASES: &[Case] = &[
    Case {
        name: "selftests",
        run: "selftests",
        mem: "256M",
    },
    Case {
        name: "fuzz",
        run: "fuzz --seed 5 --calls 60000",
        mem: "256M",
    },
    Case {
        name: "fuzz_long",
        run: "fuzz --seed 6 --calls 300000",
        mem: "256M",
    },
    Case {
        name: "many",
        run: "abuse many",
        mem: "1G",
    },
];

/// Runs the cases of one architecture.
pub fn run(job: &Job<'_>, arch: Arch, built: &Built) {
    for case in CASES {
        job.case(format!("user.{arch}.stretch.{}", case.name), || {
            check(arch, built, case)
        });
    }
}

fn check(arch: Arch, built: &Built, case: &Case) -> Result<Outcome> {
    let mut machine = Machine::new(arch, built.image.clone());
    machine.mem = case.mem.to_owned();
    machine.icount = true;
    machine.command_line = format!("quiet quire.noinput -- {}", case.run);
    let boot = console::boot(&machine, LIMIT)?;
    // Without a record nothing was asserted.
    if boot.end == End::Status(0) && Longest::of(&boot.text).is_some() {
        return Ok(Outcome::Passed);
    }
    Ok(Outcome::Failed(format!(
        "{} with {} ended with {:?}\n{}",
        case.run, case.mem, boot.end, boot.text
    )))
}

/// A stretch in instructions, and its call.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Stretch {
    instructions: u64,
    call: String,
}

/// The longest stretches of each kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Longest {
    interrupts: Stretch,
    threads: Stretch,
}

impl Longest {
    /// From a program's line `... longest stretch: interrupts N CALL, threads N CALL`.
    pub fn of(text: &str) -> Option<Longest> {
        let summary = |line: &'_ str| Some(line.split_once("longest stretch: ")?.1.to_owned());
        let line = text.lines().rev().find_map(summary)?;
        let (interrupts, threads) = line.split_once(", ")?;
        Some(Longest {
            interrupts: Stretch::of("interrupts", interrupts)?,
            threads: Stretch::of("threads", threads)?,
        })
    }

    /// The longer of each kind.
    pub fn join(self, other: Longest) -> Longest {
        Longest {
            interrupts: self.interrupts.max(other.interrupts),
            threads: self.threads.max(other.threads),
        }
    }
}

impl Stretch {
    fn of(kind: &str, text: &str) -> Option<Stretch> {
        let mut words = text.split_whitespace();
        (words.next() == Some(kind)).then_some(())?;
        Some(Stretch {
            instructions: words.next()?.parse().ok()?,
            call: words.next()?.to_owned(),
        })
    }
}

impl fmt::Display for Longest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "longest stretch: {} instructions without interrupts in {}, {} without other threads in {}",
            self.interrupts.instructions,
            self.interrupts.call,
            self.threads.instructions,
            self.threads.call
        )
    }
}

#[cfg(test)]
mod tests {
    use super::Longest;

    #[test]
    fn what_programs_say() {
        let first = "# longest stretch: interrupts 7 read, threads 9 fork\n";
        let second = "fuzz: longest stretch: interrupts 8 mmap, threads 8 mmap\nfuzz: done\n";
        let both = Longest::of(first).unwrap();
        let both = both.join(Longest::of(second).unwrap());
        assert_eq!(
            both.to_string(),
            "longest stretch: 8 instructions without interrupts in mmap, 9 without other threads in fork"
        );
        assert_eq!(Longest::of("fuzz: done\n"), None);
        assert_eq!(Longest::of("longest stretch: interrupts 7\n"), None);
    }
}
