//! Options that several commands have.
use crate::host::arch::Arch;
use clap::{Args, ValueEnum};

/// Which machines a command is for.
#[derive(Args, Debug, Clone, Default)]
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

/// CPUs of a machine on which something is tested or measured: what the kernel takes.
pub fn cpus(text: &str) -> Result<u32, String> {
    let most = arch_boot::cpus::NR_CPUS as u32;
    let number = text.parse().ok();
    number
        .filter(|number| (1..=most).contains(number))
        .ok_or_else(|| format!("the kernel runs on 1 to {most} CPUs"))
}

/// What a command may install.
#[derive(Args, Debug, Clone, Default)]
pub struct Install {
    /// Print the commands that would install what is missing; do not run them
    #[arg(long)]
    pub no_install: bool,
}

/// The longest command line that every way to boot takes, in bytes: QEMU's PVH loader damages its
/// own words beyond.
const LONGEST: usize = 4096;

/// Words for the kernel's command line.
pub fn command_line(words: &str) -> Result<String, String> {
    if words.len() > LONGEST {
        return Err(format!(
            "a command line has at most {LONGEST} bytes, this one {}",
            words.len()
        ));
    }
    Ok(words.to_owned())
}

/// One machine or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Default)]
pub enum Arches {
    /// x86_64 only.
    #[value(name = "x86_64")]
    X86_64,
    /// aarch64 only.
    #[value(name = "aarch64")]
    Aarch64,
    /// Both.
    #[default]
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
