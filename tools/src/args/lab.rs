//! Options of `lab`.
use super::shared::{Install, Machines};
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Options of `lab`.
#[derive(Args, Debug, Clone)]
#[command(args_conflicts_with_subcommands = true)]
pub struct LabArgs {
    /// What an instructor does
    #[command(subcommand)]
    pub command: Option<LabCommand>,
    /// Which lab; without a number, the list
    #[arg(value_name = "N")]
    pub number: Option<u32>,
    /// For which machines.
    #[command(flatten)]
    pub machines: Machines,
    /// Grade the solution.rs and tests.rs of this folder, not those of the lab's
    #[arg(long, value_name = "DIR")]
    pub from: Option<PathBuf>,
    /// Only what runs on the host: the tests that come with the lab, and yours
    #[arg(long, conflicts_with_all = ["arch", "bless"])]
    pub host: bool,
    /// Write the points for a grading system, too: Gradescope's results.json
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// With --from: run the folder's code without a sandbox
    #[arg(long, requires = "from")]
    pub trust: bool,
    /// Make what this solution costs the measure of others
    #[arg(long, hide = true)]
    pub bless: bool,
    /// What may be installed.
    #[command(flatten)]
    pub install: Install,
}

/// What an instructor does.
#[derive(Subcommand, Debug, Clone)]
pub enum LabCommand {
    /// Writes a students' repository: without the answers of these labs
    Handout(HandoutArgs),
    /// Takes a lab's files out of students' repositories, and says what else was changed there
    Collect(CollectArgs),
    /// Grades many submissions, each a folder with solution.rs and tests.rs: a line of CSV each
    Grade(GradeArgs),
}

/// Options of `lab handout`.
#[derive(Args, Debug, Clone)]
pub struct HandoutArgs {
    /// The new folder
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Which labs: all when absent
    #[arg(long, value_name = "N,N", value_delimiter = ',')]
    pub labs: Vec<u32>,
}

/// Options of `lab collect`.
#[derive(Args, Debug, Clone)]
pub struct CollectArgs {
    /// Which lab
    #[arg(value_name = "N")]
    pub number: u32,
    /// Students' repositories
    #[arg(value_name = "DIR", required = true)]
    pub dirs: Vec<PathBuf>,
    /// The folder that gets a folder for each
    #[arg(long, value_name = "DIR")]
    pub into: PathBuf,
}

/// Options of `lab grade`.
#[derive(Args, Debug, Clone)]
pub struct GradeArgs {
    /// Which lab
    #[arg(value_name = "N")]
    pub number: u32,
    /// Folders with solution.rs and tests.rs
    #[arg(value_name = "DIR", required = true)]
    pub dirs: Vec<PathBuf>,
    /// For which machines.
    #[command(flatten)]
    pub machines: Machines,
    /// Where the broken solutions are broken that have a choice: keep it to yourself
    #[arg(long, value_name = "N", default_value = "0")]
    pub seed: u64,
    /// Run their code without a sandbox
    #[arg(long)]
    pub trust: bool,
    /// The file for the points: a line for each submission
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// The folder for a results.json of each
    #[arg(long, value_name = "DIR")]
    pub json: Option<PathBuf>,
    /// What may be installed.
    #[command(flatten)]
    pub install: Install,
}

/// Options of `sandboxed`, which the sandbox of `lab` calls.
#[derive(Args, Debug, Clone)]
pub struct SandboxedArgs {
    /// Only limits
    #[arg(long)]
    pub open: bool,
    /// What is read beside the system's programs
    #[arg(long)]
    pub read: Vec<PathBuf>,
    /// A folder that may be written
    #[arg(long)]
    pub write: Vec<PathBuf>,
    /// Of a CPU, for each process
    #[arg(long)]
    pub seconds: u64,
    /// What runs
    #[arg(last = true, required = true)]
    pub command: Vec<PathBuf>,
}
