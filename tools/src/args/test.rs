//! Options of `test`.
use super::shared::{Arches, Install, Machines, cpus};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Options of `test`.
#[derive(Args, Debug, Clone, Default)]
pub struct TestArgs {
    /// For which.
    #[command(flatten)]
    pub machines: Machines,
    /// Test these ways to boot instead: the kernel's suite, a shell, bad input, the user-mode suite
    #[arg(
        long,
        value_name = "q35|q35-bios|q35-uefi|virt|virt-uefi|raspi3b|raspi4b|all"
    )]
    pub machine: Option<String>,
    /// One part only
    #[arg(
        long,
        value_enum,
        hide_possible_values = true,
        value_name = "host|kernel|user"
    )]
    pub only: Option<Level>,
    /// The suites of the kernel and of user mode with so many CPUs only; else they run with 1,
    /// and what can show more with 4
    #[arg(long, value_name = "N", value_parser = cpus, conflicts_with_all = ["machine", "long"])]
    pub smp: Option<u32>,
    /// Only tests whose names match, like "kernel.*.mm.*" or "user.x86_64.boot.no_init"; commas
    /// separate alternatives
    #[arg(long, value_name = "GLOB")]
    pub filter: Option<String>,
    /// All that there is: the default and every slice
    #[arg(long, conflicts_with_all = ["machine", "long"])]
    pub full: bool,
    /// The default and one of six slices of the rest, counted on: N and N + 6 are the same one
    #[arg(long, value_name = "N", conflicts_with_all = ["full", "machine", "long"])]
    pub slice: Option<u32>,
    /// Of those only what a change of the files that differ from a commit (HEAD if none is named)
    /// can reach
    #[arg(long, value_name = "COMMIT", num_args = 0..=1, default_missing_value = "HEAD", conflicts_with_all = ["filter", "machine", "long"])]
    pub changed: Option<String>,
    /// Run all that there is, and then the instruments that look for defects by chance, each for so
    /// many minutes, 30 if none are given
    #[arg(long, value_name = "MINUTES", num_args = 0..=1, default_missing_value = "30", conflicts_with_all = ["machine", "only"])]
    pub long: Option<u64>,
    /// Try instead which test finds each mutant, a rule that is broken on purpose
    #[arg(long, conflicts_with_all = ["machine", "only", "long", "full", "slice", "changed"])]
    pub mutants: bool,
    /// With --mutants: so many breaks drawn from the list of cargo-mutants instead, 20 if no number
    /// is given
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "20", requires = "mutants")]
    pub drawn: Option<usize>,
    /// With --drawn: draw by this word, and not by the hash of HEAD
    #[arg(long, value_name = "WORD", requires = "drawn")]
    pub by: Option<String>,
    /// Print the names instead, each with its level
    #[arg(long)]
    pub list: bool,
    /// Write down which tests there are, in proof/cases.txt, and run none
    #[arg(long, conflicts_with_all = ["list", "machine", "long", "smp", "slice"])]
    pub bless: bool,
    /// Write the results as JUnit XML, too
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// What may be installed.
    #[command(flatten)]
    pub install: Install,
}

/// Options of `try`.
#[derive(Args, Debug, Clone)]
pub struct TryArgs {
    /// Rooms or files of kernel/mm/src, like fault or cow
    #[arg(required = true, value_name = "ROOM")]
    pub words: Vec<String>,
    /// Whose kernel boots
    #[arg(
        long,
        value_enum,
        default_value = "x86_64",
        hide_possible_values = true,
        value_name = "x86_64|aarch64|all"
    )]
    pub arch: Arches,
    /// What may be installed.
    #[command(flatten)]
    pub install: Install,
}

/// Where a test runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Level {
    /// `cargo test`.
    Host,
    /// The suite inside the kernel.
    Kernel,
    /// Programs on the kernel.
    User,
}
