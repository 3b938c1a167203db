//! Options of `compare`.
use super::shared::{Install, Machines, command_line, cpus};
use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use serde_json::Value;
use std::path::PathBuf;

/// Options of `compare`.
#[derive(Args, Debug, Clone)]
pub struct CompareArgs {
    /// For which.
    #[command(flatten)]
    pub machines: Machines,
    /// A Linux kernel of your own (bzImage, arm64 Image, or either packed as the distributions do);
    /// may be given twice, for both machines. Without it, the newest that the distribution has
    #[arg(long, value_name = "FILE")]
    pub linux: Vec<PathBuf>,
    /// Look for a newer kernel than the one that was downloaded before
    #[arg(long, conflicts_with = "linux")]
    pub renew: bool,
    /// Measure one kernel alone
    #[arg(
        long,
        value_enum,
        hide_possible_values = true,
        value_name = "quire|linux"
    )]
    pub only: Option<Side>,
    /// What is measured.
    #[command(flatten)]
    pub choice: Choice,
    /// Have a model of a core see what each measurement does, for both kernels: TLB misses, walks
    /// of page tables, cache misses and an estimate of cycles go to the lines of --json
    #[arg(long, value_name = "CORE", requires = "json", value_parser = core)]
    pub model: Option<String>,
    /// Count the cache lines that each measurement touches, for the lines of --json
    #[arg(long, requires = "json")]
    pub lines: bool,
    /// Measure how long this program of the archive takes on both kernels, instead of its
    /// instructions: time that passes and CPU time of the whole machine, each without that of a
    /// boot. `torture --processes 1 --plays apart --threads 8 --steps 400000 --seed 1` is one with
    /// many threads
    #[arg(
        long,
        value_name = "PROGRAM",
        value_parser = command_line,
        conflicts_with_all = ["set", "op", "size", "model", "lines", "json", "jobs", "only"]
    )]
    pub time: Option<String>,
    /// How many machines of each kernel are timed, in turn; the medians are printed
    #[arg(
        long,
        value_name = "N",
        default_value_t = 5,
        requires = "time",
        value_parser = clap::value_parser!(u32).range(1..=99)
    )]
    pub runs: u32,
    /// More words for Quire's command line, like contpte=off; the first line of --json has them as
    /// `words`
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true, value_parser = command_line)]
    pub append: Option<String>,
    /// How many machines run at the same time; as many as this computer has CPUs when absent. No
    /// figure depends on it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub jobs: Option<u32>,
    /// Write the figures, one JSON line each, as they come
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// What may be installed.
    #[command(flatten)]
    pub install: Install,
}

/// The name of a core that is modelled.
fn core(name: &str) -> Result<String, String> {
    let known: Vec<&str> = models::presets::ALL.iter().map(|core| core.name).collect();
    match known.contains(&name) {
        true => Ok(name.to_owned()),
        false => Err(format!("the models are {}", known.join(", "))),
    }
}

/// What is measured.
#[derive(Args, Debug, Clone)]
pub struct Choice {
    /// Which operations at which sizes: `quick`, the ten operations of the baseline at 4, 64 and
    /// 2048 kB; `default`, all that the program measures when nothing is said; `all`, those that
    /// take long or several CPUs, too
    #[arg(
        long,
        value_enum,
        default_value = "default",
        hide_possible_values = true,
        value_name = "quick|default|all"
    )]
    pub set: Set,
    /// Only these operations, whatever the set; a name that there is not prints the list
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub op: Vec<String>,
    /// Only these folio sizes: 4 to 2048
    #[arg(long, value_name = "KB,KB", value_delimiter = ',')]
    pub size: Vec<u32>,
    /// Only machines with so many CPUs, of what is measured with several
    #[arg(long, value_name = "N,N", value_delimiter = ',', value_parser = cpus)]
    pub smp: Vec<u32>,
}

/// One of the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Side {
    /// This one.
    Quire,
    /// The one to compare with.
    Linux,
}

impl Side {
    /// In the order in which they are measured and printed.
    pub const ALL: [Side; 2] = [Side::Quire, Side::Linux];

    /// As in results.
    pub const fn name(self) -> &'static str {
        match self {
            Side::Quire => "quire",
            Side::Linux => "linux",
        }
    }

    /// As in prose.
    pub const fn title(self) -> &'static str {
        match self {
            Side::Quire => "Quire",
            Side::Linux => "Linux",
        }
    }

    /// The kernel that a line of JSON names.
    pub fn of_line(line: &Value) -> Result<Side> {
        let known = Side::ALL
            .into_iter()
            .find(|side| line["kernel"] == side.name());
        known.with_context(|| format!("no kernel is called {}", line["kernel"]))
    }
}

/// What is measured when no operation is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Set {
    /// For a look.
    Quick,
    /// What the program measures by default.
    Default,
    /// Everything.
    All,
}
