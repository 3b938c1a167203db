//! Options of `bench`, `seeds`, `profile`, `reclaim` and `house`.
use super::compare::Side;
use super::shared::{Install, Machines, cpus};
use crate::host::arch::Arch;
use clap::Args;
use std::path::PathBuf;

/// Options of `bench`.
#[derive(Args, Debug, Clone)]
pub struct BenchArgs {
    /// For which.
    #[command(flatten)]
    pub machines: Machines,
    /// Measure once for each value of a switch of the kernel's command line, like contpte=on,off
    #[arg(long, value_name = "SWITCH=A,B")]
    pub set: Option<String>,
    /// Print, as Markdown, what each mechanism of the account, of batching and of copy-on-write is
    /// worth
    #[arg(long, conflicts_with_all = ["set", "op"])]
    pub ablation: bool,
    /// Only these operations: fault, remap, munmap, fork, cow, cow-byte, reuse, reuse-byte,
    /// dontneed, mremap, protect, unprotect, collapse, exit, exit-bare, fork-exec, reach, replay,
    /// updates, survivor, vmas, child-byte, touch1g, fork1g, reach1g, beside, cow-seq, cow-rand,
    /// maps, smaps; or snapshot, latency, cost
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub op: Vec<String>,
    /// Only these folio sizes: 4 to 2048
    #[arg(long, value_name = "KB,KB", value_delimiter = ',')]
    pub size: Vec<u32>,
    /// CPUs of the machine
    #[arg(long, value_name = "N", default_value = "1", value_parser = cpus)]
    pub smp: u32,
    /// Write the figures, one JSON line per cell, too
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Hold the counts at 4, 64 and 2048 kB against the golden ones in measure/golden: each may be
    /// 1 % more or less
    #[arg(long, conflicts_with_all = ["ablation", "set", "json", "smp", "bless"])]
    pub check: bool,
    /// Make the counts of this tree the golden ones
    #[arg(long, conflicts_with_all = ["ablation", "set", "json", "smp"])]
    pub bless: bool,
    /// What may be installed.
    #[command(flatten)]
    pub install: Install,
}

/// Options of `seeds`.
#[derive(Args, Debug, Clone)]
pub struct SeedsArgs {
    /// For which.
    #[command(flatten)]
    pub machines: Machines,
    /// Only these threads: 000, 001, 002, 003, 004
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub only: Vec<String>,
    /// How many pages are measured, a multiple of 512; as in the threads, 1 GiB of them, when
    /// absent
    #[arg(long, value_name = "N", default_value_t = 1 << 18)]
    pub pages: u64,
    /// Only these folio sizes: 4 to 2048
    #[arg(long, value_name = "KB,KB", value_delimiter = ',')]
    pub size: Vec<u32>,
    /// Keep the figures in this file, and measure only what it does not have: for a run that was
    /// interrupted
    #[arg(long, value_name = "FILE")]
    pub figures: Option<PathBuf>,
    /// Write the tables into this file, too, as Markdown
    #[arg(long, value_name = "FILE")]
    pub write: Option<PathBuf>,
    /// What may be installed.
    #[command(flatten)]
    pub install: Install,
}

/// Options of `profile`.
#[derive(Args, Debug, Clone)]
pub struct ProfileArgs {
    /// Machine architecture
    #[arg(
        long,
        value_enum,
        default_value = "x86_64",
        hide_possible_values = true,
        value_name = "x86_64|aarch64"
    )]
    pub arch: Arch,
    /// The operation, one of the bench's
    #[arg(long)]
    pub op: String,
    /// The size of its folios in kB: 4 to 2048
    #[arg(long, value_name = "KB", default_value_t = 4)]
    pub size: u32,
    /// How many pages it works on, a multiple of 512
    #[arg(long, value_name = "N", default_value_t = 2048)]
    pub pages: u64,
    /// CPUs of the machine
    #[arg(long, value_name = "N", default_value = "1", value_parser = cpus)]
    pub smp: u32,
    /// How many functions are printed
    #[arg(long, value_name = "N", default_value_t = 25)]
    pub top: usize,
    /// The kernel whose functions they are; of Linux the newest that the distribution has
    #[arg(
        long,
        value_enum,
        value_name = "quire|linux",
        default_value = "quire",
        hide_possible_values = true
    )]
    pub on: Side,
    /// More words for Quire's command line, like contpte=off
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true)]
    pub append: Option<String>,
    /// Write how often each instruction was executed, too: its address and the number
    #[arg(long, value_name = "FILE")]
    pub raw: Option<PathBuf>,
    /// What may be installed.
    #[command(flatten)]
    pub install: Install,
}

/// Options of `reclaim`.
#[derive(Args, Debug, Clone)]
pub struct ReclaimArgs {
    /// Every combination of the models' switches, and larger folios
    #[arg(long)]
    pub all: bool,
    /// Write the figures, a row for each policy, too
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Record these programs anew instead, for the streams that are kept: cc1, node, redis, sqlite3
    #[arg(long, value_name = "A,B", value_delimiter = ',', conflicts_with_all = ["all", "csv"])]
    pub record: Vec<String>,
    /// What may be installed.
    #[command(flatten)]
    pub install: Install,
}

/// Options of `age`.
#[derive(Args, Debug, Clone)]
pub struct AgeArgs {
    /// Blocks that are taken and given back in a life
    #[arg(long, value_name = "N", default_value_t = 100_000_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(96..))]
    pub events: u64,
    /// Ten times as many
    #[arg(long)]
    pub long: bool,
    /// Another seed is another life
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Write the figures, 96 rows for each policy, too
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
}

/// Options of `house`.
#[derive(Args, Debug, Clone)]
pub struct HouseArgs {
    /// Print the places behind the numbers, too
    #[arg(long)]
    pub list: bool,
    /// Write the numbers and their places, too
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Print instead the comments that are wider than 100 columns; the exit status is 1 if there
    /// are any
    #[arg(long, conflicts_with_all = ["list", "json"])]
    pub check: bool,
}
