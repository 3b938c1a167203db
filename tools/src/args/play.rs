//! Options of `play`.
use super::shared::Install;
use crate::host::arch::Arch;
use clap::Args;

/// Options of `play`.
#[derive(Args, Debug, Clone)]
pub struct PlayArgs {
    /// The machine
    #[arg(
        long,
        value_enum,
        hide_possible_values = true,
        value_name = "x86_64|aarch64",
        default_value = "x86_64"
    )]
    pub arch: Arch,
    /// The port on the loopback; 0 is one that is free
    #[arg(long, default_value = "8000")]
    pub port: u16,
    /// What may be installed.
    #[command(flatten)]
    pub install: Install,
}
