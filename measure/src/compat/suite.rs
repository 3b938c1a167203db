//! Test programs for one machine, and what is run of them in one boot.
use std::path::PathBuf;
use tools::host::arch::Arch;

/// What there is for a machine.
#[derive(Debug)]
pub struct Suite {
    /// The machine.
    pub arch: Arch,
    /// In no order.
    pub programs: Vec<Program>,
}

/// A program, or several that are run one after the other.
#[derive(Debug)]
pub struct Program {
    /// Its name in tables.
    pub name: String,
    /// Its files, which the guest has in `/mm`.
    pub files: Vec<PathBuf>,
    /// The lines that run it there. After the last one `$?` is its exit status.
    pub lines: String,
}
