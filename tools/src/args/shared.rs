//! Options that several commands have.
use crate::arch::Arch;
use clap::{Args, ValueEnum};

/// Which machines a command is for.
#[derive(Args, Debug, Clone)]
pub struct Machines {
    /// For which machines
    #[arg(
        long,
        value_enum,
        default_value = "all",
        hide_possible_values = true,
        value_name = "x86_64|aarch64|all"
    )]
    pub arch: Arches,
}

/// What a command may install.
#[derive(Args, Debug, Clone)]
pub struct Install {
    /// Print the commands that would install what is missing; do not run them
    #[arg(long)]
    pub no_install: bool,
}

/// One machine or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Arches {
    /// x86_64 only.
    #[value(name = "x86_64")]
    X86_64,
    /// aarch64 only.
    #[value(name = "aarch64")]
    Aarch64,
    /// Both.
    All,
}

impl Arches {
    /// As a list.
    pub const fn arches(self) -> &'static [Arch] {
        match self {
            Arches::X86_64 => &[Arch::X86_64],
            Arches::Aarch64 => &[Arch::Aarch64],
            Arches::All => &Arch::ALL,
        }
    }
}
