//! Options of `sweep`.
use super::run::memory;
use super::shared::{Install, cpus};
use crate::host::arch::Arch;
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;

/// Options of `sweep`.
#[derive(Args, Debug, Clone)]
pub struct SweepArgs {
    /// Put this file into /bin, or at PATH; may be repeated. The first is the program that runs,
    /// if --run names no other
    #[arg(long, value_name = "FILE[=PATH]")]
    pub add: Vec<OsString>,
    /// What runs: a program of the machine and its arguments
    #[arg(long, value_name = "PROGRAM ARGS", allow_hyphen_values = true)]
    pub run: Option<String>,
    /// Values of a switch, of thp_anon or of transparent_hugepage, like fork=batch,share; may be
    /// repeated: every combination runs
    #[arg(long, value_name = "SWITCH=A,B")]
    pub set: Vec<String>,
    /// CPUs of the machine; with several numbers every combination runs with each
    #[arg(long, value_name = "N,N", default_value = "1", value_delimiter = ',', value_parser = cpus)]
    pub smp: Vec<u32>,
    /// Machine architecture: that of the program, or x86_64
    #[arg(
        long,
        value_enum,
        hide_possible_values = true,
        value_name = "x86_64|aarch64"
    )]
    pub arch: Option<Arch>,
    /// Guest memory
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = memory)]
    pub mem: String,
    /// Run each combination so often, and compare
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: u32,
    /// Let the clock show time, not count instructions: two runs differ
    #[arg(long)]
    pub real_time: bool,
    /// End a run after so much CPU time of each CPU of the machine
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = clap::value_parser!(u64).range(1..))]
    pub timeout: u64,
    /// Write a row for each run
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Write a JSON line for each run
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Run however many combinations there are
    #[arg(long)]
    pub yes: bool,
    /// What may be installed.
    #[command(flatten)]
    pub install: Install,
}
