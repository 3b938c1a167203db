//! The program behind `run.sh`: builds the kernel and the user programs, makes one bootable file,
//! runs it in QEMU, tests it.
//!
//! Standard output belongs to the guest's console (`run`) or to the results (`test`); the tool's
//! own messages go to standard error.
pub mod added;
pub mod arch;
pub mod args;
pub mod backports;
pub mod bench;
pub mod book;
pub mod browser;
pub mod build;
pub mod compare;
pub mod compat;
pub mod compilers;
pub mod conflicts;
pub mod debian;
pub mod doctor;
pub mod executable;
pub mod firmware;
pub mod gdb;
pub mod guest;
pub mod house;
pub mod image;
pub mod initramfs;
pub mod install;
pub mod iso;
pub mod lab;
pub mod limine;
#[cfg(test)]
mod links;
pub mod linux;
pub mod managers;
pub mod media;
pub mod meter;
pub mod packages;
#[cfg(test)]
mod pages;
pub mod picture;
pub mod play;
pub mod profile;
pub mod progress;
pub mod proof;
pub mod qemu;
pub mod raspi;
pub mod report;
pub mod rootfs;
pub mod run;
pub mod sdcard;
pub mod seeds;
pub mod sweep;
pub mod symbols;
#[cfg(test)]
mod tables;
pub mod test;
pub mod words;
pub mod workers;
pub mod workspace;

use args::{Cli, Command};

/// An error in the command line that clap does not find: exit status 2.
#[derive(Debug)]
pub struct UsageError(pub String);

impl std::fmt::Display for UsageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (see ./run.sh --help)", self.0)
    }
}

impl std::error::Error for UsageError {}

/// What each error begins with on standard error.
pub fn name_of_errors() -> impl std::fmt::Display {
    console::style("run.sh:").red().bold().for_stderr()
}

/// Runs the command line's command and returns the exit status.
pub fn dispatch(cli: Cli) -> anyhow::Result<u8> {
    match cli.command {
        None => run::run(&cli.run),
        Some(Command::Run(args)) => run::run(&args),
        Some(Command::Test(args)) => test::test(&args),
        Some(Command::Try(args)) => test::of_room(&args),
        Some(Command::Bench(args)) => bench::bench(&args),
        Some(Command::Compare(args)) => compare::compare(&args),
        Some(Command::Compat(args)) => compat::compat(&args),
        Some(Command::Conflicts(args)) => conflicts::conflicts(&args),
        Some(Command::Report(args)) => report::report(&args),
        Some(Command::Seeds(args)) => seeds::seeds(&args),
        Some(Command::Sweep(args)) => sweep::sweep(&args),
        Some(Command::Lab(args)) => lab::lab(&args),
        Some(Command::Sandboxed(args)) => lab::sandboxed(&args),
        Some(Command::House(args)) => house::house(&args),
        Some(Command::Proof(args)) => proof::proof(&args),
        Some(Command::Book(args)) => book::book(&args),
        Some(Command::Picture(args)) => picture::picture(&args),
        Some(Command::Play(args)) => play::play(&args),
        Some(Command::Profile(args)) => profile::profile(&args),
        Some(Command::Image(args)) => media::image(&args),
        Some(Command::Doctor(args)) => doctor::doctor(&args),
        Some(Command::Completions(args)) => {
            args::complete(&args);
            Ok(0)
        }
    }
}
