//! `./run.sh picture`: page tables and physical memory as SVG, drawn from what two processes of a
//! running machine have after each step of a scene (`userland/src/bin/scene`).
mod canvas;
mod draw;
mod memory;
mod state;
mod tree;

use anyhow::{Context, Result, ensure};
pub use draw::picture as svg;
use measure::bench;
pub use state::State;
use std::fs;
use std::time::Duration;
use tools::args::{self, PictureArgs};
use tools::host::errors::UsageError;
use tools::host::{install, workspace};
use tools::machine::build;
use tools::machine::console;

/// The tour that is drawn when nothing is said.
const TOUR: [&str; 10] = [
    "size 64",
    "map 0-1023",
    "write 0-40",
    "read 600-610",
    "fork",
    "child write 3",
    "write 20",
    "unmap 8-11",
    "move 0-511 2048",
    "exit",
];
/// On the command line, for the step `out`.
pub const SWAP: &str = "zram=64M";
/// For the boot and all steps.
const LIMIT: Duration = Duration::from_secs(120);

/// Boots, has the steps done, and draws the state after each; the exit status is 1 when a step
/// failed.
pub fn picture(args: &PictureArgs) -> Result<u8> {
    let steps: Vec<&str> = match args.steps.is_empty() {
        true => TOUR.to_vec(),
        false => args.steps.iter().map(String::as_str).collect(),
    };
    let program = command(&steps)?;
    let words = "quiet quire.noinput";
    args::command_line(&format!("{words} -- {program}")).map_err(UsageError)?;
    install::ensure_qemu(&[args.arch], args.install.no_install)?;
    let built = build::build(args.arch, false)?;
    let out = match &args.out {
        Some(folder) => workspace::user_path(folder),
        None => workspace::target().join("picture"),
    };
    fs::create_dir_all(&out).with_context(|| format!("--out {}", out.display()))?;
    let machine = bench::of_quire(args.arch, &built, "256M", SWAP, &program);
    let boot = console::boot(&machine, LIMIT)?;
    let states = State::all(&boot.text)?;
    ensure!(
        states.len() == steps.len(),
        "{} of {} steps were done\n{}",
        states.len(),
        steps.len(),
        boot.text
    );
    let mut failed = false;
    for (at, state) in states.iter().enumerate() {
        let name = format!("{:02}-{}.svg", at + 1, file_name(&state.step));
        fs::write(out.join(&name), svg(state))?;
        failed |= state.error.is_some();
        println!("{:<20} {}", state.step, state.summary());
    }
    println!("{} pictures in {}", states.len(), out.display());
    Ok(u8::from(failed))
}

/// The program with its steps, each in quotes.
pub fn command(steps: &[&str]) -> Result<String, UsageError> {
    if let Some(step) = steps.iter().find(|step| step.contains('"')) {
        return Err(UsageError(format!("no step {step}")));
    }
    let quoted: Vec<String> = steps.iter().map(|step| format!("\"{step}\"")).collect();
    Ok(format!("scene {}", quoted.join(" ")))
}

/// A step as a part of a file's name.
fn file_name(step: &str) -> String {
    let plain = |letter: char| match letter {
        letter if letter.is_ascii_alphanumeric() => letter,
        _ => '-',
    };
    step.chars().map(plain).collect()
}
