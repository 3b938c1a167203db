//! `abuse`: programs that exhaust resources, each on a machine of its own with little memory. The
//! program's last line shows that the kernel still works.
use super::job::Job;
use super::unit;
use anyhow::Result;
use std::time::Duration;
use tools::host::arch::Arch;
use tools::host::outcome::Outcome;
use tools::machine::build::Built;
use tools::machine::console;
use tools::machine::guest::End;
use tools::machine::qemu::Machine;

/// Of CPU time; the longest takes a sixth of it.
const LIMIT: Duration = Duration::from_secs(600);

/// One boot, in which PID 1 runs one program.
struct Case {
    /// The name in `user.ARCH.abuse.NAME`.
    name: &'static str,
    /// The program and its arguments.
    run: &'static str,
    mem: &'static str,
    /// More words on the kernel's command line.
    words: &'static str,
    /// Text that must be on the console.
    says: &'static str,
    /// The same with 4 CPUs, where it runs there, too: where they wait for each other's locks, a
    /// step takes several times as long.
    smp: Option<&'static str>,
    /// The only architecture it runs on, if there is one.
    only: Option<Arch>,
    /// The clock counts instructions, so that the longest stretches can be asserted.
    counted: bool,
}

/// `abuse RUN` on a machine with 256 MiB.
const fn abuse(name: &'static str, run: &'static str) -> Case {
    Case {
        name,
        run,
        mem: "256M",
        words: "",
        says: ": done",
        smp: None,
        only: None,
        counted: false,
    }
}

/// `abuse RUN` on a machine with 128 MiB, which are full soon.
const fn small(name: &'static str, run: &'static str) -> Case {
    Case {
        mem: "128M",
        ..abuse(name, run)
    }
}

/// `torture`: this program line, and that with 4 CPUs, on a machine with so much memory.
const fn torture(
    name: &'static str,
    mem: &'static str,
    run: &'static str,
    smp: &'static str,
) -> Case {
    Case {
        mem,
        says: "nothing wrong",
        smp: Some(smp),
        ..abuse(name, run)
    }
}

/// 8 threads of one process, which also fill memory: with these seeds in each run.
const fn threads(name: &'static str, mem: &'static str, run: &'static str) -> Case {
    Case {
        says: " crowds",
        ..torture(
            name,
            mem,
            run,
            "torture --steps 3000 --seed 18 --processes 1 --threads 8 --plays arena",
        )
    }
}

const CASES: &[Case] = &[
    threads(
        "threads",
        "256M",
        "torture --steps 12000 --seed 1 --processes 1 --threads 8 --plays arena",
    ),
    threads(
        "threads_1g",
        "1G",
        "torture --steps 6000 --seed 2 --processes 1 --threads 8 --plays arena",
    ),
    torture(
        "torture",
        "1G",
        "torture --steps 28000 --seed 1",
        "torture --steps 8000 --seed 1",
    ),
    torture(
        "torture_long",
        "1G",
        "torture --steps 84000 --seed 2",
        "torture --steps 24000 --seed 2",
    ),
    abuse("around", "abuse around"),
    small("signals", "abuse signals"),
    small("signals_memory", "abuse signals memory"),
    Case {
        says: "\nok 2 heap_fail.2 ",
        ..abuse("heap_fail", "selftests --timeout 60 --heap-fail 2")
    },
    Case {
        says: "\nok 3 heap_fail.11 ",
        ..abuse("heap_fail_more", "selftests --timeout 60 --heap-fail 5,11")
    },
    Case {
        says: "fuzz: done",
        ..small("fuzz_full", "fuzz --seed 3 --calls 30000 --full yes")
    },
    Case {
        says: "fuzz: done",
        ..small(
            "fuzz_heap_fail",
            "fuzz --seed 4 --calls 20000 --heap-fail 2",
        )
    },
    small("full", "abuse full"),
    small("full_link", "abuse full link"),
    small("full_rename", "abuse full rename"),
    small("full_files", "abuse full files"),
    small("areas", "abuse areas"),
    small("chain", "abuse chain"),
    Case {
        only: Some(Arch::X86_64),
        ..abuse("vm86", "abuse vm86")
    },
    Case {
        words: "init=/bin/first",
        ..abuse("first", "")
    },
    Case {
        counted: true,
        ..abuse("hang", "abuse hang")
    },
    Case {
        counted: true,
        ..abuse("memory", "abuse memory")
    },
    Case {
        counted: true,
        ..abuse("pairs", "abuse pairs")
    },
    abuse("mounts", "abuse mounts"),
    small("far", "abuse far"),
    Case {
        words: "zram=192M",
        smp: Some("abuse larger"),
        ..small("larger", "abuse larger")
    },
    Case {
        words: "zram=192M",
        smp: Some("abuse too_large"),
        ..small("too_large", "abuse too_large")
    },
    Case {
        words: "zram=192M",
        says: "skip:0",
        smp: Some("selftests zram_* settings_have*"),
        ..small("zram", "selftests zram_* settings_have*")
    },
    Case {
        smp: Some("abuse pieces 9 10 95"),
        ..abuse("pieces", "abuse pieces")
    },
    abuse("observers", "abuse observers"),
    abuse("transfers", "abuse transfers"),
    // Memory for 33,000 processes of some 110 kB.
    Case {
        mem: "5G",
        ..abuse("crowd", "abuse crowd")
    },
    Case {
        mem: "1G",
        words: "ids=1 thp_anon=16K-64K:always",
        ..abuse("crowd_one_id", "abuse crowd 2000")
    },
];

/// Runs the cases of one architecture with so many CPUs.
pub fn run(job: &Job<'_>, arch: Arch, built: &Built, cpus: u32) {
    let ours = |case: &&Case| case.only.is_none_or(|only| only == arch);
    for case in CASES.iter().filter(ours) {
        let run = if cpus == 1 { Some(case.run) } else { case.smp };
        let Some(run) = run else { continue };
        let name = format!("{}.abuse.{}", unit::name("user", arch, cpus), case.name);
        job.case(name, || check(arch, built, (case, run), cpus));
    }
}

/// Runs a case's program line.
fn check(arch: Arch, built: &Built, (case, run): (&Case, &str), cpus: u32) -> Result<Outcome> {
    let mut machine = Machine::new(arch, built.image.clone());
    machine.mem = case.mem.to_owned();
    machine.icount = case.counted;
    machine.smp = cpus;
    machine.command_line = format!("quiet quire.noinput {} -- {}", case.words, run);
    let boot = console::boot(&machine, LIMIT)?;
    if boot.end == End::Status(0) && boot.text.contains(case.says) {
        return Ok(Outcome::Passed);
    }
    Ok(Outcome::Failed(format!(
        "{} with {} ended with {:?}\n{}",
        run, case.mem, boot.end, boot.text
    )))
}
