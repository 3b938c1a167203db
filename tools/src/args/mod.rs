//! The command line of `run.sh`.
use crate::host::system::Systems;
use crate::host::words;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;
use std::ffi::OsString;
use std::io;

mod book;
mod compare;
mod compat;
mod conflicts;
mod image;
mod lab;
mod measure;
mod picture;
mod play;
mod report;
mod run;
mod shared;
mod sweep;
mod test;

pub use book::BookArgs;
pub use compare::{Choice, CompareArgs, Set, Side};
pub use compat::CompatArgs;
pub use conflicts::ConflictsArgs;
pub use image::{ImageArgs, Medium};
pub use lab::{CollectArgs, GradeArgs, HandoutArgs, LabArgs, LabCommand, SandboxedArgs};
pub use measure::{AgeArgs, BenchArgs, HouseArgs, ProfileArgs, ReclaimArgs, SeedsArgs};
pub use picture::PictureArgs;
pub use play::PlayArgs;
pub use report::ReportArgs;
pub use run::{BootWay, RunArgs, bytes};
pub use shared::{Arches, Install, Machines, command_line};
pub use sweep::SweepArgs;
pub use test::{Level, TestArgs, TryArgs};

/// Boots Quire in QEMU, tests it, and checks what this machine needs for that.
#[derive(Parser, Debug)]
#[command(name = "run.sh", bin_name = "./run.sh", args_conflicts_with_subcommands = true, after_help = EXIT)]
pub struct Cli {
    /// `run` when absent.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// What `run` takes, when no command is named.
    #[command(flatten)]
    pub run: RunArgs,
}

const EXIT: &str = "Exit status of run: that of PID 1 (power off: 0; ended by signal N: 128+N), 101 after a kernel panic,
124 after --timeout, 2 for a usage error.
With a terminal, every key goes to the guest, ^C too; ctrl-a x ends QEMU.";

/// The commands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Boots Quire (the default)
    #[command(after_help = EXIT)]
    Run(RunArgs),
    /// Tests on the host, in the kernel and in user mode
    Test(TestArgs),
    /// Tests one room of the memory manager: its programs on the host, one kernel, golden counts
    Try(TryArgs),
    /// Measures what memory operations cost, in guest instructions, beside Linux's figures; fails
    /// when a target is missed
    Bench(BenchArgs),
    /// Measures the same program on Quire and on Linux, in turn: guest instructions and their ratio
    Compare(CompareArgs),
    /// Runs Linux's own tests of memory management and of ptrace on Quire and on Linux, and prints
    /// where they differ
    Compat(CompatArgs),
    /// Prints which pairs of operations on memory two CPUs can do without a cache line that both
    /// contend for, and whose the lines of the others are
    Conflicts(ConflictsArgs),
    /// Writes one page with plots of all figures, and measures what it lacks for that
    Report(ReportArgs),
    /// Measures the tables of the mailing-list threads that this kernel comes from, beside their
    /// own figures
    Seeds(SeedsArgs),
    /// Checks the proofs in proof/coq with Coq and prints the theorems
    Proof(ProofArgs),
    /// Builds the documentation as one book, with its links checked
    Book(BookArgs),
    /// Draws page tables and physical memory of two processes after each step of a scene
    Picture(PictureArgs),
    /// Serves a page on which two processes change their memory step by step, with pictures
    Play(PlayArgs),
    /// Prints which functions of the kernel an operation of the bench spends its instructions in
    Profile(ProfileArgs),
    /// Lives a year of a machine's memory with each policy of page blocks, and counts what is left
    /// of its large blocks
    Age(AgeArgs),
    /// Judges policies of reclaim over recorded and made streams, beside Belady's optimum
    Reclaim(ReclaimArgs),
    /// Runs your own program under every combination of settings and compares what it costs
    Sweep(SweepArgs),
    /// Grades a lab of a course: what a solution answers and costs, and what its tests find
    Lab(LabArgs),
    /// Runs a command without network and files, as `lab` does with others' code
    #[command(hide = true)]
    Sandboxed(SandboxedArgs),
    /// Prints how the kernel's source is built: parameters, descents, lines, floors
    House(HouseArgs),
    /// Writes an image to start from: an ISO for CD and USB stick, or an SD card for a Raspberry Pi
    Image(ImageArgs),
    /// Checks what this machine has and says how to get the rest
    Doctor(DoctorArgs),
    /// Prints what has a shell complete commands and options: `source <(./run.sh completions bash)`
    Completions(CompletionsArgs),
}

/// Options of `completions`.
#[derive(Args, Debug, Clone)]
pub struct CompletionsArgs {
    /// For which shell
    #[arg(value_enum)]
    pub shell: Shell,
}

/// Prints the completions of a shell.
pub fn complete(args: &CompletionsArgs) {
    // By its last part a shell finds them for `./run.sh`, too.
    clap_complete::generate(args.shell, &mut Cli::command(), "run.sh", &mut io::stdout());
}

/// Options of `doctor`.
#[derive(Args, Debug, Clone)]
pub struct DoctorArgs {
    /// Print instead what installs everything on a fresh machine with this system
    #[arg(
        long = "for",
        value_enum,
        hide_possible_values = true,
        value_name = "debian|ubuntu|fedora|arch|alpine|macos|all"
    )]
    pub system: Option<Systems>,
}

/// Options of `proof`.
#[derive(Args, Debug, Clone)]
pub struct ProofArgs {
    /// What may be installed.
    #[command(flatten)]
    pub install: Install,
}

/// Parses the process's command line; wrong ones end the process with status 2 and a short text.
pub fn parse() -> Cli {
    parse_from(std::env::args_os()).unwrap_or_else(|error| {
        if !error.use_stderr() {
            // Help.
            error.exit();
        }
        let text = error.render().to_string();
        eprint!(
            "{} {}",
            crate::host::errors::name_of_errors(),
            text.strip_prefix("error: ").unwrap_or(&text)
        );
        std::process::exit(error.exit_code());
    })
}

/// Since `run` needs no name, clap takes a mistyped command for an argument too many.
fn parse_from(line: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> Result<Cli, Error> {
    Cli::try_parse_from(line).map_err(|error| match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(word))
            if error.kind() == ErrorKind::UnknownArgument && !word.starts_with('-') =>
        {
            let mut cli = Cli::command();
            let shown = cli.get_subcommands().filter(|one| !one.is_hide_set());
            let known: Vec<&str> = shown.map(|one| one.get_name()).collect();
            let text = words::unknown("command", word, &known).0;
            cli.error(ErrorKind::InvalidSubcommand, text)
        }
        _ => error,
    })
}

/// The options of a command, from a line with its name: for the tests of those who take them.
pub fn options<T: FromArgMatches>(line: &str) -> T {
    let matches = Cli::command().try_get_matches_from(line.split_whitespace());
    let options = matches.and_then(|matches| match matches.subcommand() {
        Some((_, options)) => T::from_arg_matches(options),
        None => T::from_arg_matches(&matches),
    });
    options.unwrap_or_else(|error| panic!("{line}: {error}"))
}

/// For tests: the options of `run`.
#[cfg(test)]
pub fn run_args(line: &str) -> Result<RunArgs, clap::Error> {
    let cli = parse_from(line.split(' '))?;
    Ok(match cli.command {
        Some(Command::Run(args)) => args,
        _ => cli.run,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::arch::Arch;

    #[test]
    fn run_is_the_default_command() {
        for line in [
            "run.sh --arch aarch64 --mem 512M",
            "run.sh run --arch aarch64 --mem 512M",
        ] {
            let args = run_args(line).unwrap();
            assert_eq!(
                (args.arch(), args.mem.as_str(), args.debug),
                (Arch::Aarch64, "512M", false)
            );
        }
        assert_eq!(
            run_args("run.sh --machine raspi3b").unwrap().arch(),
            Arch::Aarch64
        );
        let args = run_args("run.sh --append --x --icount -- -d int").unwrap();
        assert_eq!(args.append.as_deref(), Some("--x"));
        assert_eq!(args.qemu, ["-d", "int"]);
    }

    #[test]
    fn sizes() {
        let sizes = ["64", "64M", "1g", "512k"].map(bytes);
        assert_eq!(sizes, [64 << 20, 64 << 20, 1 << 30, 512 << 10]);
        assert_eq!(bytes("99999999999999999999G"), u64::MAX);
    }

    #[test]
    fn wrong_ones_are_usage_errors() {
        for line in [
            "run.sh --mem 0",
            "run.sh --mem x",
            "run.sh --mem 4095K",
            "run.sh --arch vax",
            "run.sh --nope",
            "run.sh --timeout 0",
            "run.sh --boot grub",
            "run.sh --boot limine --firmware coreboot",
            "run.sh image floppy",
            "run.sh image",
            "run.sh doctor --for vax",
            "run.sh test --smp 0",
            "run.sh test --smp 65",
            "run.sh test --smp four",
            "run.sh test --smp 4 --machine all",
            "run.sh bench --smp 65",
            "run.sh compare --set fast",
            "run.sh compare --jobs 0",
            "run.sh compare --renew --linux vmlinuz",
            "run.sh report --renew --from x",
            "run.sh sweep --smp 1,65",
            "run.sh sweep --repeat 0",
            "run.sh --smp 256",
        ] {
            assert_eq!(run_args(line).unwrap_err().exit_code(), 2, "{line}");
        }
        for (line, meant) in [
            ("run.sh tset", "did you mean test?"),
            ("run.sh test --only kernl", "'kernel'"),
            ("run.sh --timout 5", "'--timeout'"),
        ] {
            let error = run_args(line).unwrap_err().to_string();
            assert!(error.contains(meant), "{error}");
        }
        assert!(run_args("run.sh --add x --initramfs y").is_err());
        let words = |count| run_args(&format!("run.sh --append {}", "w".repeat(count)));
        assert!(words(4096).is_ok() && words(4097).is_err());
        assert_eq!(
            run_args("run.sh --release --debug")
                .unwrap_err()
                .exit_code(),
            2
        );
    }
}
