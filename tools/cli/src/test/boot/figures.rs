//! The cost of a boot, counted: the same twice, and within its budgets.
use super::super::job::Job;
use super::LIMIT;
use anyhow::{Context, Result, bail, ensure};
use measure::bench::cells::{Cell, Cells};
use measure::bench::{self, golden, plan::BASELINE};
use measure::compare;
use measure::seeds;
use std::fs;
use tools::host::arch::Arch;
use tools::host::outcome::Outcome;
use tools::machine::build::Built;
use tools::machine::console;
use tools::machine::guest::End;
use tools::machine::qemu::Machine;

/// Limit of guest instructions from reset to /init (the brief of this kernel).
const BOOT_BUDGET: u64 = 40_000_000;
/// And how many more for each further GiB.
const GIB_BUDGET: u64 = 1_000_000;

/// The largest kernel image, in bytes, without the initramfs that is built in.
const IMAGE_LIMIT: u64 = 4 << 20;

/// A test by its name.
type Test = (&'static str, fn(Arch, &Built) -> Result<Outcome>);

const TESTS: [Test; 11] = [
    ("image_size", image_size),
    ("same_figures_twice", tour),
    ("same_figures_on_four_cpus", |arch, built| {
        same_figures(arch, built, 4, "quiet -- torture --steps 2000 --seed 1")
    }),
    ("budget", boot_budget),
    ("costs", costs),
    ("allocator_cost", allocator_cost),
    ("bench_twice", bench_twice),
    ("snapshot_figures", snapshot),
    ("latency_figures", latency),
    ("seeds", seeds),
    ("compare", beside_linux),
];

/// Runs all of them on one architecture.
pub fn run(job: &Job<'_>, arch: Arch, built: &Built) {
    for (name, test) in TESTS {
        job.case(format!("user.{arch}.boot.{name}"), || test(arch, built));
    }
    for op in BASELINE {
        job.case(format!("user.{arch}.golden.{op}"), || {
            golden_counts(arch, built, op)
        });
    }
}

fn image_size(_: Arch, built: &Built) -> Result<Outcome> {
    let archive = fs::metadata(&built.initramfs)?.len();
    for image in [&built.image, &built.limine] {
        let bytes = fs::metadata(image)?.len() - archive;
        ensure!(
            bytes <= IMAGE_LIMIT,
            "{} has {bytes} bytes without its initramfs, {IMAGE_LIMIT} are allowed",
            image.display()
        );
    }
    Ok(Outcome::Passed)
}

/// One cell of `./run.sh compare`, when a Linux is there: both kernels end, and fork costs less on
/// this one.
fn beside_linux(arch: Arch, built: &Built) -> Result<Outcome> {
    let Some([quire, linux]) = compare::with_downloaded(arch, built, "fork", 64)? else {
        let why = "no Linux was downloaded; ./run.sh compare does";
        return Ok(Outcome::Skipped(why.to_owned()));
    };
    ensure!(
        quire < linux,
        "fork takes {quire} instructions per page, {linux} on Linux"
    );
    Ok(Outcome::Passed)
}

/// The default image under --icount, running one command.
fn counted(arch: Arch, built: &Built, cpus: u32, words: &str) -> Result<console::Boot> {
    let mut machine = Machine::new(arch, built.image.clone());
    machine.icount = true;
    machine.smp = cpus;
    machine.command_line = format!("quire.noinput {words}");
    console::boot(&machine, LIMIT)
}

/// Two runs of `words` print the same, times included; with several CPUs, too, which take turns.
fn same_figures(arch: Arch, built: &Built, cpus: u32, words: &str) -> Result<Outcome> {
    let first = counted(arch, built, cpus, words)?;
    again(&first, arch, built, cpus, words)
}

/// Another run of `words` prints what the first did.
fn again(
    first: &console::Boot,
    arch: Arch,
    built: &Built,
    cpus: u32,
    words: &str,
) -> Result<Outcome> {
    let second = counted(arch, built, cpus, words)?;
    if first.end != End::Status(0) || first.text.lines().count() < 4 {
        return Ok(Outcome::Failed(format!(
            "{words} ended with {:?}\n{}",
            first.end, first.text
        )));
    }
    if first.text == second.text {
        return Ok(Outcome::Passed);
    }
    let pairs = first.text.lines().zip(second.text.lines());
    let differing: String = pairs
        .filter(|(a, b)| a != b)
        .map(|(a, b)| format!("- {a}\n+ {b}\n"))
        .collect();
    Ok(Outcome::Failed(format!("two runs differ:\n{differing}")))
}

/// The tour: the same twice, and on x86_64 the steps that the README's picture shows.
fn tour(arch: Arch, built: &Built) -> Result<Outcome> {
    const TOUR: &str = "quiet -- memtour";
    let first = counted(arch, built, 1, TOUR)?;
    if arch == Arch::X86_64 {
        let drawn = steps(include_str!("../../../../../docs/terminal.svg"));
        let told = steps(&first.text);
        ensure!(
            drawn == told && told.len() == 8,
            "docs/terminal.svg has {drawn:#?}, not {told:#?}"
        );
    }
    again(&first, arch, built, 1, TOUR)
}

/// Name and counts of each step of a tour; the last of the eight numbers of a line is its time.
fn steps(text: &str) -> Vec<String> {
    let lines = text.lines().map(|line| {
        let line = line.strip_suffix("</text>").unwrap_or(line);
        line.rsplit('>').next().unwrap_or(line)
    });
    let words = lines.map(|line| line.split_whitespace().collect::<Vec<_>>());
    let is_number = |word: &&str| word.parse::<i64>().is_ok();
    words
        .filter(|words| words.len() > 8 && words[words.len() - 8..].iter().all(is_number))
        .map(|words| words[..words.len() - 1].join(" "))
        .collect()
}

/// With 1 GiB, and from there to 5 GiB: a PC then has a hole of 2 GiB in its memory.
fn boot_budget(arch: Arch, built: &Built) -> Result<Outcome> {
    let start = |gib: u64| {
        let mut machine = Machine::new(arch, built.image.clone());
        machine.icount = true;
        machine.mem = format!("{gib}G");
        machine.command_line = "quire.noinput -- memtour".to_owned();
        let boot = console::boot(&machine, LIMIT)?;
        instructions(&boot.text).with_context(|| format!("no instruction count\n{}", boot.text))
    };
    let counts = [start(1)?, start(2)?, start(5)?];
    let allowed = [
        BOOT_BUDGET,
        counts[0] + GIB_BUDGET,
        counts[1] + 3 * GIB_BUDGET,
    ];
    if counts
        .iter()
        .zip(allowed)
        .any(|(count, most)| *count > most)
    {
        bail!(
            "/init starts after {counts:?} instructions with 1, 2 and 5 GiB, {allowed:?} are allowed"
        );
    }
    Ok(Outcome::Passed)
}

/// N in `/init starts after N ns`: with -icount, a nanosecond is an instruction.
fn instructions(text: &str) -> Option<u64> {
    let (_, rest) = text.split_once("/init starts after ")?;
    rest.split_once(" ns")?.0.trim().parse().ok()
}

/// Calls within their budgets, and a fault among 60,000 areas, which costs at most twice one among
/// few.
fn costs(arch: Arch, built: &Built) -> Result<Outcome> {
    for program in ["cost", "bench --op vmas"] {
        let cells = bench::measure(arch, built, "", program)?;
        if let Some(table) = bench::missed_targets(arch, cells) {
            return Ok(Outcome::Failed(table));
        }
    }
    Ok(Outcome::Passed)
}

/// The kernel's own measurement of its page allocator, which it skips where the clock counts no
/// instructions.
fn allocator_cost(arch: Arch, built: &Built) -> Result<Outcome> {
    let boot = counted(arch, built, 1, "quiet quire.test=*allocator_cost")?;
    if boot.end == End::Status(0) && boot.text.contains("order 0: allocate") {
        return Ok(Outcome::Passed);
    }
    Ok(Outcome::Failed(boot.text))
}

/// Two runs of the bench print the same figures, down to the counters.
fn bench_twice(arch: Arch, built: &Built) -> Result<Outcome> {
    let measure = || bench::measure(arch, built, "", "bench --op fault,munmap --size 4,64");
    let (first, second) = (measure()?, measure()?);
    let differing = bench::differences(&first, &second);
    if first.is_empty() || !differing.is_empty() {
        let count = first.len();
        bail!("{count} cells, differing:\n{}", differing.join("\n"));
    }
    Ok(Outcome::Passed)
}

/// One operation of `./run.sh bench --check`.
fn golden_counts(arch: Arch, built: &Built, op: &str) -> Result<Outcome> {
    let cells = golden::measure(arch, built, &[op], &golden::SIZES)?;
    let differing = golden::differing(arch, &cells)?;
    ensure!(
        differing.is_empty(),
        "where this is meant, ./run.sh bench --bless keeps it:\n{}",
        differing.concat()
    );
    Ok(Outcome::Passed)
}

/// The cost of a snapshot by fork: with `fork=share` the call is the cheapest, and a write that
/// takes a table apart the dearest; a copy is made of each page that is written, and of none that
/// is not.
fn snapshot(arch: Arch, built: &Built) -> Result<Outcome> {
    let program = "snapshot --table 16 --size 4";
    let cells = bench::measure(arch, built, "cow=page", program)?;
    let (each, batch, share) = (
        saved_by(&cells, "per-pte")?,
        saved_by(&cells, "batch")?,
        saved_by(&cells, "share")?,
    );
    ensure!(
        share.figure < batch.figure.min(each.figure) / 2.0,
        "fork takes {}, {} and {} instructions",
        each.figure,
        batch.figure,
        share.figure
    );
    ensure!(
        share.counter("longest") > 2 * batch.counter("longest"),
        "the longest write takes {} and {} instructions",
        batch.counter("longest"),
        share.counter("longest")
    );
    for cell in [each, batch, share] {
        let (faults, copied) = (cell.counter("faults"), cell.counter("pages_copied"));
        // The processes also copy a few pages of their own.
        ensure!(
            faults > 512 && (faults..faults + 64).contains(&copied),
            "{faults} faults, {copied} pages copied"
        );
    }
    // Writes at random seldom lie beside others.
    let cells = bench::measure(arch, built, "cow=grow", program)?;
    let grows = saved_by(&cells, "batch")?.counter("pages_copied");
    let written = batch.counter("pages_copied");
    ensure!(
        (written..written + written / 4).contains(&grows),
        "{grows} pages copied, of {written} that are written"
    );
    Ok(Outcome::Passed)
}

/// The snapshot with this way of fork.
fn saved_by<'a>(cells: &'a Cells, fork: &str) -> Result<&'a Cell> {
    let name = format!("snapshot={fork}/16");
    let mut found = cells.iter().filter(|(key, _)| key.op == name);
    let cell = found.next().map(|(_, cell)| cell);
    cell.with_context(|| format!("no snapshot by fork={fork}"))
}

/// Large folios make fewer faults, whose cost falls in all, and longer ones, up to what a process
/// permits itself; and where nothing is zeroed or copied their size makes no difference.
fn latency(arch: Arch, built: &Built) -> Result<Outcome> {
    let program =
        "latency --size 4,64,2048 --samples 64 --event copied,signal,switch,late,permitted";
    let cells = bench::measure(arch, built, "", program)?;
    let find = |event: &str, kb: u64| {
        let found = cells
            .iter()
            .find(|(key, _)| key.op == format!("latency={event}") && key.kb == kb);
        found
            .map(|(_, cell)| cell)
            .with_context(|| format!("no {event} with {kb} kB"))
    };
    let median = |event, kb| Ok::<_, anyhow::Error>(find(event, kb)?.counter("whole"));
    let (page, kb64, mib2) = (
        median("copied", 4)?,
        median("copied", 64)?,
        median("copied", 2048)?,
    );
    ensure!(
        page < kb64 && kb64 < mib2 && mib2 < 512 * page,
        "the first write after fork takes {page}, {kb64} and {mib2} instructions"
    );
    for event in ["signal", "switch"] {
        let (small, large) = (median(event, 4)?, median(event, 2048)?);
        ensure!(
            small.abs_diff(large) * 100 < small,
            "{event} takes {small} and {large} instructions"
        );
    }
    // There a few instructions zero any number of bytes (FEAT_MOPS).
    let zeroing_counts = arch == Arch::X86_64;
    let late = |kb| Ok::<_, anyhow::Error>(find("late", kb)?.counter("largest"));
    let (page, mib2) = (late(4)?, late(2048)?);
    ensure!(
        page < 20_000 && (mib2 > 10 * page) == zeroing_counts,
        "a signal is late by {page} and {mib2} instructions"
    );
    let sets = [
        "none",
        "16kB",
        "16kB-64kB",
        "16kB-256kB",
        "16kB-1024kB",
        "all",
    ];
    let cell = |set: &str| find(&format!("permitted/{set}"), 0);
    for ((less, more), pages) in sets.iter().zip(&sets[1..]).zip([1, 4, 16, 64, 256]) {
        let (less, more) = (cell(less)?, cell(more)?);
        let longer = less.counter("whole") < more.counter("whole");
        ensure!(
            less.counter("faults") == 16384 / pages
                && less.counter("total") > more.counter("total")
                && (longer || !zeroing_counts),
            "{}, then {}",
            less.line,
            more.line
        );
    }
    Ok(Outcome::Passed)
}

/// Each figure of the threads 001 and 003 is measured, and agrees with the thread's or has a
/// reason.
fn seeds(arch: Arch, built: &Built) -> Result<Outcome> {
    let unexplained = seeds::unexplained(arch, built)?;
    ensure!(unexplained.is_empty(), "{}", unexplained.join("\n"));
    Ok(Outcome::Passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instruction_count() {
        assert_eq!(
            instructions("[ 0.02] quire: /init starts after 1234567 ns\n"),
            Some(1_234_567)
        );
        assert_eq!(instructions("/init starts after many ns"), None);
    }
}
