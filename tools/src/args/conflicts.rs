//! Options of `conflicts`.
use super::shared::{Install, Machines};
use clap::Args;
use std::path::PathBuf;

/// Options of `conflicts`.
#[derive(Args, Debug, Clone)]
pub struct ConflictsArgs {
    /// For which.
    #[command(flatten)]
    pub machines: Machines,
    /// Only pairs of these operations; with one name, all pairs that have it: read, write, cow,
    /// reuse, futex, getpid, populate, mprotect, mmap, brk, fork, dontneed, mremap, munmap, exit
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub op: Vec<String>,
    /// Only at these places: other-2m, other-area, other-space, folio, page
    #[arg(long, value_name = "P,Q", value_delimiter = ',')]
    pub place: Vec<String>,
    /// Look at the distribution's Linux, too, as `compare` does
    #[arg(long)]
    pub linux: bool,
    /// Write a JSON line for each cell, as they come
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// What may be installed.
    #[command(flatten)]
    pub install: Install,
}
