//! Options of `book`.
use super::shared::Install;
use clap::Args;
use std::path::PathBuf;

/// Options of `book`.
#[derive(Args, Debug, Clone)]
pub struct BookArgs {
    /// The folder for index.html, which must be empty or an older book; target/book/html when
    /// absent
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// What may be installed.
    #[command(flatten)]
    pub install: Install,
}
