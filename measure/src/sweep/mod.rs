//! `./run.sh sweep`: a program under every combination of settings, each on a machine of its own;
//! what it cost, by the kernel's counters and in its own words.
mod files;
mod own;
mod plan;
mod program;
mod row;
mod table;

use crate::bench;
use anyhow::Result;
use files::Files;
use plan::Combination;
use program::Program;
pub use row::Row;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tools::args;
use tools::args::SweepArgs;
use tools::host::errors::UsageError;
use tools::host::install;
use tools::host::workspace::Temporary;
use tools::machine::build::{self, Built};
use tools::machine::console;
use tools::machine::qemu::Machine;
use tools::machine::{added, guest, initramfs};

/// Runs every combination and prints what differs; the exit status is 1 when a run failed or, with
/// instructions counted, repeated runs differ.
pub fn sweep(args: &SweepArgs) -> Result<u8> {
    let combinations = plan::combinations(args)?;
    let program = Program::of(args)?;
    for of in &combinations {
        args::command_line(&words(of, &program)).map_err(UsageError)?;
    }
    let files = Files::of(args.csv.as_deref(), args.json.as_deref())?;
    install::ensure_qemu(&[program.arch], args.install.no_install)?;
    let built = build::build(program.arch, false)?;
    let done = Arc::new(Mutex::new(Vec::new()));
    on_a_signal(&done, combinations.len() * args.repeat as usize);
    run(args, &program, &built, &combinations, |row| {
        // Held until the files are whole.
        let mut rows = lock(&done);
        rows.push(row);
        files.write(&rows)
    })?;
    let rows = lock(&done);
    print!("{}", table::render(&rows));
    let failed = rows.iter().any(|row| !row.passed());
    let differ = repeats(args, &rows);
    Ok(u8::from(failed || differ))
}

/// For tests: the runs of a sweep, with what was built.
pub fn with_built(args: &SweepArgs, built: &Built) -> Result<Vec<Row>> {
    let (program, combinations) = (Program::of(args)?, plan::combinations(args)?);
    let mut rows = Vec::new();
    run(args, &program, built, &combinations, |row| {
        rows.push(row);
        Ok(())
    })?;
    Ok(rows)
}

/// Has a signal show what there is; the files have it already.
fn on_a_signal(done: &Arc<Mutex<Vec<Row>>>, all: usize) {
    let done = Arc::clone(done);
    guest::before_the_end(move || {
        let rows = lock(&done);
        print!("{}", table::render(&rows));
        eprintln!("run.sh: interrupted after {} of {all} runs", rows.len());
        // Kept until this program has ended: a run that the signal ends is no result.
        std::mem::forget(rows);
    });
}

fn lock(rows: &Mutex<Vec<Row>>) -> MutexGuard<'_, Vec<Row>> {
    rows.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The kernel's command line.
fn words(of: &Combination, program: &Program) -> String {
    let (settings, command) = (of.words(), &program.command);
    format!("quiet quire.noinput {settings} -- counters {command}")
}

/// One run after the other; `keep` gets each.
fn run(
    args: &SweepArgs,
    program: &Program,
    built: &Built,
    combinations: &[Combination],
    mut keep: impl FnMut(Row) -> Result<()>,
) -> Result<()> {
    let archive = initramfs::default_archive(&built.programs)?;
    program.check(&archive.paths())?;
    // Kept until the last machine has ended.
    let archive = Temporary::file("cpio", &added::archive(archive, &program.added)?)?;
    let of_each = |of| (1..=args.repeat).map(move |repeat| (of, repeat));
    let all = combinations.len() as u32 * args.repeat;
    let (started, limit) = (Instant::now(), Duration::from_secs(args.timeout));
    for (done, (of, repeat)) in (1..).zip(combinations.iter().flat_map(of_each)) {
        let machine = machine(args, program, built, of, &archive);
        let boot = console::boot_patiently(&machine, limit)?;
        let row = Row::new(program.arch, of, repeat, &boot.text, boot.end);
        if !row.passed() {
            eprint!("{}", row::said(&boot.text));
        }
        keep(row)?;
        let left = started.elapsed() / done * (all - done);
        eprintln!("run.sh: {done} of {all}: {of}{}", remaining(left));
    }
    Ok(())
}

/// How long the rest takes.
fn remaining(left: Duration) -> String {
    match left.as_secs() {
        0 => String::new(),
        seconds @ 1..120 => format!(", {seconds} s left"),
        seconds => format!(", {} minutes left", seconds / 60),
    }
}

/// The machine of one run.
fn machine(
    args: &SweepArgs,
    program: &Program,
    built: &Built,
    of: &Combination,
    archive: &Temporary,
) -> Machine {
    let mut machine = bench::counted(program.arch, &args.mem);
    machine.icount = !args.real_time;
    machine.smp = of.smp;
    machine.image.clone_from(&built.image);
    machine.initramfs = Some(archive.path().to_owned());
    machine.command_line = words(of, program);
    machine
}

/// Says what repeated runs do not have in common; whether that is a failure.
fn repeats(args: &SweepArgs, rows: &[Row]) -> bool {
    if args.repeat == 1 {
        return false;
    }
    let lines = table::unequal(rows);
    match (lines.is_empty(), args.real_time) {
        (true, _) => println!("\nrepeated runs are equal"),
        (false, true) => println!("\nrepeated runs differ, by the clock:"),
        (false, false) => println!("\nrepeated runs differ, though the clock counts instructions:"),
    }
    lines.iter().for_each(|line| println!("  {line}"));
    !lines.is_empty() && !args.real_time
}
