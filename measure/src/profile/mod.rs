//! `./run.sh profile`: which functions of the kernel an operation of the bench spends its
//! instructions in.
//!
//! The program of the bench stops before and after what it measures and waits for a key; between
//! the two, QEMU logs every instruction that it executes.
mod monitor;
mod table;
mod trace;

use crate::bench::{counted, plan};
use anyhow::{Context, Result, bail};
use monitor::Monitor;
use rustix::fs::{CWD, Mode, mkfifoat};
use std::fs;
use std::path::Path;
use std::slice;
use std::time::Duration;
use tools::args::ProfileArgs;
use tools::host::errors::UsageError;
use tools::host::workspace::{self, Temporary};
use tools::host::{install, symbols};
use tools::machine::build;
use tools::machine::guest::{Event, Guest};
use tools::machine::qemu::Console;
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
    let mut machine = counted(args.arch, "1G");
    machine.image.clone_from(&built.image);
    machine.smp = args.smp;
    machine.command_line = format!(
        "quiet {} -- bench --op {} --size {} --pages {} --watched yes",
        args.append.as_deref().unwrap_or_default(),
        args.op,
        args.size,
        args.pages
    );
    let folder = Temporary::folder("profile")?;
    let (log, socket) = (folder.path().join("log"), folder.path().join("qmp"));
    mkfifoat(CWD, &log, Mode::RUSR | Mode::WUSR)?;
    machine.extra.extend([
        "-qmp".to_owned(),
        format!("unix:{},server=on,wait=off", text(&socket)?),
    ]);
    let counts = watch(&machine, &log, &socket)?;
    let functions = symbols::functions(&fs::read(&built.elf)?)?;
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

/// Runs the machine; returns what it executed between the two stops.
fn watch(machine: &tools::machine::qemu::Machine, log: &Path, socket: &Path) -> Result<Counts> {
    let mut guest = Guest::start(machine, Console::Pipes, true)?;
    wait_for(&mut guest, "\"begin\"}")?;
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
        Ok(counts) => counts,
        Err(_) => bail!("the reader of the log panicked"),
    }
}

/// Until the guest has printed this.
fn wait_for(guest: &mut Guest, words: &str) -> Result<()> {
    let mut said = String::new();
    while !said.contains(words) {
        let limit = guest.limit(SILENCE);
        match guest.next_within(&[limit]) {
            Event::Output(piece) => said += &String::from_utf8_lossy(&piece),
            Event::Ended(end) => bail!("the machine ended ({end:?}):\n{said}{}", guest.errors()),
            Event::Nothing => bail!("the machine says nothing any more:\n{said}"),
        }
    }
    Ok(())
}

fn text(path: &Path) -> Result<String> {
    let text = path.to_str().map(str::to_owned);
    text.context("the folder for temporary files has a name that is not text")
}
