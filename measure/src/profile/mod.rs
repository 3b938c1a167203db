//! `./run.sh profile`: which functions of a kernel an operation of the bench spends its
//! instructions in.
//!
//! The program of the bench stops before and after what it measures and waits for a key; between
//! the two, QEMU logs every instruction that it executes.
mod monitor;
mod table;
mod trace;

use crate::bench::{counted, plan};
use crate::kernels;
use anyhow::{Context, Result, bail};
use monitor::Monitor;
use rustix::fs::{CWD, Mode, mkfifoat};
use std::fs;
use std::path::Path;
use std::slice;
use std::time::Duration;
use tools::args::{ProfileArgs, Side};
use tools::host::errors::UsageError;
use tools::host::workspace::{self, Temporary};
use tools::host::{install, symbols};
use tools::machine::build::{self, Built};
use tools::machine::guest::{Event, Guest};
use tools::machine::linux;
use tools::machine::qemu::{Console, Machine};
use trace::Counts;

/// A machine that prints nothing for this long hangs.
const SILENCE: Duration = Duration::from_secs(60);

/// Measures one operation and prints its functions.
pub fn profile(args: &ProfileArgs) -> Result<u8> {
    plan::check(slice::from_ref(&args.op), slice::from_ref(&args.size))?;
    if args.pages == 0 || !args.pages.is_multiple_of(512) {
        return Err(UsageError(format!("--pages {} is no multiple of 512", args.pages)).into());
    }
    let raw = workspace::writable("--raw", args.raw.as_deref())?;
    install::ensure_qemu(&[args.arch], args.install.no_install)?;
    let built = build::build(args.arch, false)?;
    let mut machine = machine(args, &built)?;
    let folder = Temporary::folder("profile")?;
    let (log, socket) = (folder.path().join("log"), folder.path().join("qmp"));
    mkfifoat(CWD, &log, Mode::RUSR | Mode::WUSR)?;
    machine.extra.extend([
        "-qmp".to_owned(),
        format!("unix:{},server=on,wait=off", text(&socket)?),
    ]);
    let (counts, said) = watch(&machine, &log, &socket)?;
    let functions = match args.on {
        Side::Quire => symbols::functions(&fs::read(&built.elf)?)?,
        Side::Linux => symbols::listed(&said),
    };
    print!(
        "{}",
        table::render(&counts, &functions, args.pages, args.top)
    );
    if let Some(path) = &raw {
        fs::write(path, table::raw(&counts))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(0)
}

/// The machine in which the program stops around the operation.
fn machine(args: &ProfileArgs, built: &Built) -> Result<Machine> {
    let ProfileArgs {
        arch,
        op,
        size,
        pages,
        ..
    } = args;
    let line = format!("bench --op {op} --size {size} --pages {pages} --watched yes");
    let swaps = plan::SWAPS.contains(&op.as_str());
    let mut machine = counted(*arch, "1G");
    machine.smp = args.smp;
    if args.on == Side::Linux {
        let kernel = linux::of_distribution(&[*arch], false)?.pop();
        let kernel = kernel.context("a Linux for this machine")?;
        machine.initramfs = Some(match swaps {
            true => kernels::with_zram(&kernel, built)?,
            false => built.initramfs.clone(),
        });
        machine.image = kernel.image;
        machine.command_line = linux::words(*arch, &line);
        return Ok(machine);
    }
    let words = args.append.as_deref().unwrap_or_default();
    let swap = if swaps { kernels::ZRAM } else { "" };
    machine.image.clone_from(&built.image);
    machine.command_line = format!("quiet {swap} {words} -- {line}");
    Ok(machine)
}

/// Runs the machine; returns what it executed between the two stops, and what it said before.
fn watch(machine: &Machine, log: &Path, socket: &Path) -> Result<(Counts, String)> {
    let mut guest = Guest::start(machine, Console::Pipes, true)?;
    let said = wait_for(&mut guest, "\"begin\"}")?;
    let mut monitor = Monitor::connect(socket)?;
    let reader = {
        let log = log.to_owned();
        std::thread::spawn(move || trace::read(&log))
    };
    monitor.command(&format!("logfile {}", text(log)?))?;
    monitor.command("one-insn-per-tb on")?;
    monitor.command("log exec,nochain")?;
    guest.send(b"\n")?;
    wait_for(&mut guest, "\"end\"}")?;
    monitor.command("log none")?;
    guest.stop();
    match reader.join() {
        Ok(counts) => Ok((counts?, said)),
        Err(_) => bail!("the reader of the log panicked"),
    }
}

/// Until the guest has printed this; returns what it said.
fn wait_for(guest: &mut Guest, words: &str) -> Result<String> {
    let (mut said, mut looked_at) = (String::new(), 0);
    let words = words.as_bytes();
    // A list of functions is long: what was looked at is not looked at again.
    while !said.as_bytes()[looked_at..]
        .windows(words.len())
        .any(|found| found == words)
    {
        looked_at = said.len().saturating_sub(words.len());
        let limit = guest.limit(SILENCE);
        match guest.next_within(&[limit]) {
            Event::Output(piece) => said += &String::from_utf8_lossy(&piece),
            Event::Ended(end) => bail!("the machine ended ({end:?}):\n{said}{}", guest.errors()),
            Event::Nothing => bail!("the machine says nothing any more:\n{said}"),
        }
    }
    Ok(said)
}

fn text(path: &Path) -> Result<String> {
    let text = path.to_str().map(str::to_owned);
    text.context("the folder for temporary files has a name that is not text")
}
