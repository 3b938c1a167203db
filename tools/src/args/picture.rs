//! Options of `picture`.
use super::shared::Install;
use crate::host::arch::Arch;
use clap::Args;
use std::path::PathBuf;

/// Options of `picture`.
#[derive(Args, Debug, Clone)]
pub struct PictureArgs {
    /// What is done before each picture, such as 'write 0-15': the steps of the program scene;
    /// absent: a tour
    #[arg(value_name = "STEP")]
    pub steps: Vec<String>,
    /// The machine
    #[arg(
        long,
        value_enum,
        hide_possible_values = true,
        value_name = "x86_64|aarch64",
        default_value = "x86_64"
    )]
    pub arch: Arch,
    /// The folder for the pictures; target/picture when absent
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// What may be installed.
    #[command(flatten)]
    pub install: Install,
}
