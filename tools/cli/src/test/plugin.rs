//! The plugin for QEMU on Quire: what it says of `counted`, of which each instruction is known.
use super::job::Job;
use super::unit::name;
use anyhow::{Context, Result, ensure};
use counts::args::Lines;
use counts::counts::{Counter, Mode};
use counts::lines::LINE;
use counts::record::{Cpu, Record};
use std::time::{Duration, Instant};
use tools::host::arch::Arch;
use tools::host::outcome::Outcome;
use tools::host::workspace::Temporary;
use tools::machine::build::Built;
use tools::machine::console;
use tools::machine::guest::End;
use tools::machine::qemu::Machine;
use tools::machine::qemu::plugin::{self, Plugin};

mod walks;

/// For a boot, silent or not: on a busy host QEMU with a model takes minutes.
const LIMIT: Duration = Duration::from_secs(1200);
/// Rounds of `counted`.
const FEW: u64 = 1000;

/// Runs the cases of one architecture with so many CPUs.
pub fn run(job: &Job<'_>, arch: Arch, built: &Built, cpus: u32) {
    let machine = || {
        let mut machine = Machine::new(arch, built.image.clone());
        machine.smp = cpus;
        machine
    };
    let case = |case: &str, body: &dyn Fn(Machine) -> Result<Outcome>| {
        let name = format!("{}.plugin.{case}", name("user", arch, cpus));
        job.case(name, || match plugin::missing(arch)? {
            Some(why) => Ok(Outcome::Skipped(why)),
            None => body(machine()),
        });
    };
    case("counts", &counts);
    case("repeats", &repeats);
    if cpus > 1 {
        case("cpus", &self::cpus);
    }
    if cpus == 1 {
        case("walks", &|machine| walks::walks(machine));
        case("arguments", &arguments);
    }
}

/// One boot that plays rounds: what the program says, and what the plugin measured.
struct Played {
    text: String,
    json: String,
    records: Vec<Record>,
}

/// Plays on one CPU, whichever it is, or on each in turn.
fn play(machine: &mut Machine, each_cpu: bool) -> Result<Played> {
    let out = Temporary::name("jsonl");
    let mut plugin = Plugin::build(out.path())?;
    plugin.lines = Lines::Each;
    machine.plugin = Some(plugin.clone());
    let cpus = match each_cpu {
        true => machine.smp.to_string(),
        false => String::new(),
    };
    let text = boot(machine, &format!("{FEW} {cpus}"))?.0;
    let records = plugin.records()?;
    let expected = if each_cpu { machine.smp as usize } else { 1 };
    ensure!(
        records.len() == expected,
        "{} measurements, not {expected}\n{text}",
        records.len()
    );
    Ok(Played {
        json: std::fs::read_to_string(out.path())?,
        records,
        text,
    })
}

/// What a boot prints that plays rounds, and how long it takes.
fn boot(machine: &mut Machine, words: &str) -> Result<(String, Duration)> {
    machine.command_line = format!("quiet quire.noinput -- counted {words}");
    let started = Instant::now();
    let boot = console::boot_patiently(machine, LIMIT)?;
    let line = boot.text.lines().find(|line| line.starts_with("counted: "));
    let line = line.filter(|_| boot.end == End::Status(0));
    let line = line.with_context(|| format!("ended with {:?}\n{}", boot.end, boot.text))?;
    Ok((line.to_owned(), started.elapsed()))
}

/// Counts, and the lines of the program, are as it says. With several CPUs, each on a thread of its
/// own, others may do something meanwhile, but no user program.
fn counts(mut machine: Machine) -> Result<Outcome> {
    let played = play(&mut machine, false)?;
    let record = &played.records[0];
    let counted = said(&record.cpus);
    let Some(at) = played.text.strip_prefix(&counted) else {
        let text = format!("{}\nbut is {counted}", played.text);
        return Ok(Outcome::Failed(text));
    };
    let at = u64::from_str_radix(at.trim_start_matches("0x"), 16)?;
    lines(record, at)?;
    Ok(Outcome::Passed)
}

/// What the program says when it did what was counted of these CPUs.
fn said(cpus: &[Cpu]) -> String {
    let of_user = |counter| -> u64 {
        let of_cpu = |cpu: &Cpu| cpu.counts.of(Mode::User, counter);
        cpus.iter().map(of_cpu).sum()
    };
    let [instructions, loads, stores, atomics] = Counter::ALL.map(of_user);
    format!(
        "counted: {instructions} instructions, {loads} loads, {stores} stores, {atomics} atomics; \
         lines at "
    )
}

/// What a CPU does counts for it and no other one, though the blocks are the same: each on a thread
/// of its own, and on x86_64 all on one.
fn cpus(mut machine: Machine) -> Result<Outcome> {
    let counting: &[bool] = match machine.arch {
        Arch::X86_64 => &[false, true],
        Arch::Aarch64 => &[false],
    };
    for &icount in counting {
        machine.icount = icount;
        let played = play(&mut machine, true)?;
        for (cpu, record) in played.records.iter().enumerate() {
            let counted = said(&record.cpus[cpu..=cpu]);
            ensure!(
                played.text.starts_with(&counted),
                "{}\nbut of CPU {cpu} (icount: {icount}) {counted}",
                played.text
            );
        }
    }
    Ok(Outcome::Passed)
}

/// Of the five lines from `at`, one is read, two are written, and two are both.
fn lines(record: &Record, at: u64) -> Result<()> {
    let lines = record.cpus.iter().filter_map(|cpu| cpu.lines.as_ref());
    let mut used = [(false, false); 5];
    for (_, one) in lines.flat_map(|lines| lines.sorted()) {
        let index = |address: u64| address.checked_sub(at).map(|offset| offset / LINE);
        for place in [one.read, one.written].into_iter().flatten() {
            let Some(index @ 0..5) = index(place.address) else {
                continue;
            };
            ensure!(
                Mode::of(place.pc) == Mode::User,
                "{place:?} is the kernel's"
            );
            used[index as usize].0 |= one.read == Some(place);
            used[index as usize].1 |= one.written == Some(place);
        }
    }
    let expected = [
        (true, false),
        (false, true),
        (false, true),
        (true, true),
        (true, true),
    ];
    ensure!(
        used == expected,
        "lines are used as {used:?}, not {expected:?}"
    );
    Ok(())
}

/// With a clock that counts instructions, two runs say the same, to the byte.
fn repeats(mut machine: Machine) -> Result<Outcome> {
    machine.icount = true;
    let (first, second) = (play(&mut machine, false)?, play(&mut machine, false)?);
    Ok(if first.json == second.json {
        Outcome::Passed
    } else {
        Outcome::Failed(format!("{}\nand then\n{}", first.json, second.json))
    })
}

/// QEMU does not start with arguments that the plugin does not take, and says why.
fn arguments(mut machine: Machine) -> Result<Outcome> {
    let file = Plugin::build("unused".as_ref())?.file;
    let file = file.to_str().context("a path that is not text")?;
    for (words, why) in [
        ("lines=each", "out=FILE is missing"),
        ("out=/nowhere/at/all", "cannot write out=/nowhere/at/all"),
        ("out=/dev/null,lines=maybe", "lines is off, count or each"),
    ] {
        machine.extra = vec!["-plugin".to_owned(), format!("{file},{words}")];
        let boot = console::boot_patiently(&machine, LIMIT)?;
        ensure!(
            boot.text.contains(&format!("quire-plugin: {why}")) && boot.end != End::Status(0),
            "{words}: ended with {:?}\n{}",
            boot.end,
            boot.text
        );
    }
    Ok(Outcome::Passed)
}
