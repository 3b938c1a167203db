//! Options of `compat`.
use super::shared::{Install, Machines};
use clap::Args;
use std::path::PathBuf;

/// Options of `compat`.
#[derive(Args, Debug, Clone)]
pub struct CompatArgs {
    /// For which.
    #[command(flatten)]
    pub machines: Machines,
    /// Run tests of the Linux Test Project on memory, fork, futexes and signals instead: of this
    /// source tree, built static for one machine
    #[arg(long, value_name = "DIR", conflicts_with = "renew")]
    pub ltp: Option<PathBuf>,
    /// Only these programs; a name that there is not prints the list
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub only: Vec<String>,
    /// A Linux kernel of your own, as for `compare`; the tests are those of the distribution's
    /// source
    #[arg(long, value_name = "FILE")]
    pub linux: Vec<PathBuf>,
    /// Look for a newer kernel and newer tests than those that were downloaded before
    #[arg(long)]
    pub renew: bool,
    /// How much CPU time a program may take, of each CPU of the machine
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..))]
    pub timeout: u64,
    /// How many machines run at the same time; as many as this computer has CPUs when absent
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub jobs: Option<u32>,
    /// Write what each program printed as results, one JSON line for each boot, as they come
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the table as Markdown, too
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// What may be installed.
    #[command(flatten)]
    pub install: Install,
}
