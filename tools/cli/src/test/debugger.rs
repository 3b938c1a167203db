//! gdb on a machine that waits for it: the breakpoint of `./run.sh --gdb`, and our commands `walk`
//! and `pte`.
use super::job::Job;
use anyhow::{Context, Result, bail, ensure};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use tools::host::arch::Arch;
use tools::host::outcome::Outcome;
use tools::machine::build::Built;
use tools::machine::gdb;
use tools::machine::guest::Guest;
use tools::machine::qemu::{Console, Machine};

/// How long gdb may take, a few seconds of work, on a host that is busy or was stopped.
const LIMIT: Duration = Duration::from_secs(600);

/// Where the kernel stands behind `kernel_main`, what is there, and what is nowhere. `monitor xp`
/// reads physical memory.
const SCRIPT: [&str; 6] = [
    "walk $pc",
    "python gdb.execute(\"monitor xp /1gx %#x\" % int(gdb.parse_and_eval(\"$physical\")))",
    "x/1gx $pc",
    "walk 0x7ffffffff000",
    "pte 0x68000040000701",
    "kill",
];

/// Runs it on one architecture.
pub fn run(job: &Job<'_>, arch: Arch, built: &Built) {
    job.case(format!("user.{arch}.gdb.walk"), || walk(arch, built));
}

fn walk(arch: Arch, built: &Built) -> Result<Outcome> {
    let Some(debugger) = gdb::find(arch) else {
        let why = format!("no gdb for {arch} is installed (Debian's package gdb-multiarch)");
        return Ok(Outcome::Skipped(why));
    };
    let port = gdb::any_port()?;
    let mut machine = Machine::new(arch, built.image.clone());
    machine.gdb = Some(port);
    let mut guest = Guest::start(&machine, Console::Pipes, true)?;
    let mut command = Command::new(debugger);
    command.args(["-batch", "-nx", "-q"]);
    command.args(gdb::arguments(&built.elf, port));
    command.args(SCRIPT.iter().flat_map(|line| ["-ex", line]));
    let said = output(command)?;
    guest.stop();
    check(arch, &said).with_context(|| said.clone())?;
    Ok(Outcome::Passed)
}

/// A command's output on both streams; an error when it does not end.
fn output(mut command: Command) -> Result<String> {
    let (reader, writer) = std::io::pipe()?;
    let mut child = command
        .stdin(Stdio::null())
        .stderr(writer.try_clone()?)
        .stdout(writer)
        .spawn()?;
    // It holds the pipe's other end.
    drop(command);
    let (send, ended) = mpsc::channel();
    std::thread::spawn(move || send.send(std::io::read_to_string(reader)));
    let said = ended.recv_timeout(LIMIT);
    if said.is_err() {
        child.kill()?;
    }
    child.wait()?;
    match said {
        Ok(said) => Ok(said?),
        Err(_) => bail!("gdb does not come to its end"),
    }
}

fn check(arch: Arch, said: &str) -> Result<()> {
    ensure!(said.contains("Breakpoint 1, ") && said.contains("kernel_main ("));
    // From the first level to the last of the kernel's text, and the same bytes there by both ways.
    let lines: Vec<&str> = said.lines().collect();
    let at = lines
        .iter()
        .position(|line| line.starts_with("physical 0x"));
    let at = at.context("no physical address")?;
    ensure!(
        lines[..at]
            .iter()
            .any(|line| line.starts_with("PGD[511] at "))
    );
    let word = |line: Option<&&str>| -> Option<String> {
        Some(line?.rsplit_once("0x")?.1.trim().to_owned())
    };
    let (physical, virtually) = (word(lines.get(at + 1)), word(lines.get(at + 2)));
    ensure!(physical.is_some() && physical == virtually);
    ensure!(said.contains("absent"));
    let decoded = match arch {
        Arch::X86_64 => "-> 0x8000040000000  present",
        Arch::Aarch64 => "-> 0x40000000  valid af dbm pxn uxn attr0 sh3",
    };
    ensure!(said.contains(decoded));
    Ok(())
}
