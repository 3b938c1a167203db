//! Options of `report`.
use super::shared::{Install, Machines};
use clap::Args;
use std::path::PathBuf;

/// Options of `report`.
#[derive(Args, Debug, Clone)]
pub struct ReportArgs {
    /// For which.
    #[command(flatten)]
    pub machines: Machines,
    /// Measure nothing: read these files, which `compare`, `bench`, `conflicts` wrote with --json,
    /// `reclaim` with --csv, or consoles of `frames`; of two figures for the same place the later
    /// one counts
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub from: Vec<PathBuf>,
    /// Measure again what is there from an earlier report
    #[arg(long, conflicts_with = "from")]
    pub renew: bool,
    /// The folder for index.html; target/report when absent
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// What may be installed.
    #[command(flatten)]
    pub install: Install,
}
