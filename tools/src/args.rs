//! The command line of `run.sh`.
use crate::arch::Arch;
use crate::doctor::system::Systems;
use crate::qemu::{self, Firmware};
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

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
    /// Measures what memory operations cost, in guest instructions, beside Linux's figures
    Bench(BenchArgs),
    /// Checks the proofs in docs/proofs with Coq and prints the theorems
    Proof(ProofArgs),
    /// Prints which functions of the kernel an operation of the bench spends its instructions in
    Profile(ProfileArgs),
    /// Writes an image to start from: an ISO for CD and USB stick, or an SD card for a Raspberry Pi
    Image(ImageArgs),
    /// Checks what this machine has and says how to get the rest
    Doctor(DoctorArgs),
}

/// Options of `test`.
#[derive(Args, Debug, Clone)]
pub struct TestArgs {
    /// Machines to test
    #[arg(
        long,
        value_enum,
        default_value = "all",
        hide_possible_values = true,
        value_name = "x86_64|aarch64|all"
    )]
    pub arch: Arches,
    /// Test these ways to boot instead: the kernel's suite, a shell, bad input, the user-mode suite
    #[arg(
        long,
        value_name = "q35|q35-bios|q35-uefi|virt|virt-uefi|raspi3b|raspi4b|all"
    )]
    pub machine: Option<String>,
    /// One level only
    #[arg(
        long,
        value_enum,
        hide_possible_values = true,
        value_name = "host|kernel|user"
    )]
    pub only: Option<Level>,
    /// Only tests whose names match, like "kernel.*.mm.*" or "user.x86_64.boot.no_init"; commas separate alternatives
    #[arg(long, value_name = "GLOB")]
    pub filter: Option<String>,
    /// Print the names instead
    #[arg(long)]
    pub list: bool,
    /// Write the results as JUnit XML, too
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Print the commands that would install what is missing; do not run them
    #[arg(long)]
    pub no_install: bool,
}

/// Options of `bench`.
#[derive(Args, Debug, Clone)]
pub struct BenchArgs {
    /// Machines to measure
    #[arg(
        long,
        value_enum,
        default_value = "all",
        hide_possible_values = true,
        value_name = "x86_64|aarch64|all"
    )]
    pub arch: Arches,
    /// Measure once for each value of a switch of the kernel's command line, like contpte=on,off
    #[arg(long, value_name = "SWITCH=A,B")]
    pub set: Option<String>,
    /// Print, as Markdown, what each mechanism of the account, of batching and of copy-on-write is worth
    #[arg(long, conflicts_with_all = ["set", "op", "json", "linux"])]
    pub ablation: bool,
    /// Only these operations: fault, remap, munmap, fork, cow, cow-byte, reuse, reuse-byte, dontneed, mremap, updates, survivor,
    /// vmas, child-byte, touch1g, fork1g
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub op: Vec<String>,
    /// Only these folio sizes: 4 to 2048
    #[arg(long, value_name = "KB,KB", value_delimiter = ',')]
    pub size: Vec<u32>,
    /// Write the figures, one JSON line per cell, too
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Measure this Linux kernel, too (a vmlinuz or Image), with the same program on the same machine; needs one --arch
    #[arg(long, value_name = "IMAGE")]
    pub linux: Option<PathBuf>,
    /// Print the commands that would install what is missing; do not run them
    #[arg(long)]
    pub no_install: bool,
}

/// Options of `image`.
#[derive(Args, Debug, Clone)]
pub struct ImageArgs {
    /// iso: one hybrid image for BIOS and UEFI PCs and 64-bit Arm with UEFI; rpi: an SD card for a Raspberry Pi 3 or 4
    #[arg(value_enum, hide_possible_values = true, value_name = "iso|rpi")]
    pub medium: Medium,
    /// rpi: the folder with the Pi's firmware (bootcode.bin, start*.elf, fixup*.dat, *.dtb, overlays)
    #[arg(long, value_name = "FOLDER")]
    pub firmware: Option<PathBuf>,
    /// Where it goes
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// iso: machines that it can start
    #[arg(
        long,
        value_enum,
        default_value = "all",
        hide_possible_values = true,
        value_name = "x86_64|aarch64|all"
    )]
    pub arch: Arches,
    /// Put this newc archive (plain, gzip or zstd) on it and run its /init instead of the built-in one
    #[arg(long, value_name = "FILE")]
    pub initramfs: Option<PathBuf>,
    /// Words for the kernel's command line
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true)]
    pub append: Option<String>,
    /// Print the commands that would install what is missing; do not run them
    #[arg(long)]
    pub no_install: bool,
}

/// What an image is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Medium {
    /// CD or USB stick.
    Iso,
    /// SD card.
    Rpi,
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
    /// Print the commands that would install what is missing; do not run them
    #[arg(long)]
    pub no_install: bool,
}

/// Options of `profile`.
#[derive(Args, Debug, Clone)]
pub struct ProfileArgs {
    /// Machine architecture
    #[arg(
        long,
        value_enum,
        default_value = "x86_64",
        hide_possible_values = true,
        value_name = "x86_64|aarch64"
    )]
    pub arch: Arch,
    /// The operation, one of the bench's
    #[arg(long)]
    pub op: String,
    /// The size of its folios in kB: 4 to 2048
    #[arg(long, value_name = "KB", default_value_t = 4)]
    pub size: u32,
    /// How many pages it works on, a multiple of 512
    #[arg(long, value_name = "N", default_value_t = 2048)]
    pub pages: u64,
    /// How many functions are printed
    #[arg(long, value_name = "N", default_value_t = 25)]
    pub top: usize,
    /// More words for the kernel's command line, like contpte=off
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true)]
    pub append: Option<String>,
    /// Write how often each instruction was executed, too: its address and the number
    #[arg(long, value_name = "FILE")]
    pub raw: Option<PathBuf>,
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

/// What loads the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BootWay {
    /// QEMU.
    Direct,
    /// Limine, from a disk.
    Limine,
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

/// Options of `run`.
#[derive(Args, Debug, Clone)]
pub struct RunArgs {
    /// Machine architecture: that of --machine, or x86_64
    #[arg(
        long,
        value_enum,
        hide_possible_values = true,
        value_name = "x86_64|aarch64"
    )]
    pub arch: Option<Arch>,
    /// QEMU machine: q35 or microvm for x86_64, the others for aarch64; QEMU's options may follow ("virt,gic-version=3")
    #[arg(long, value_name = "q35|microvm|virt|raspi3b|raspi4b")]
    pub machine: Option<String>,
    /// What loads the kernel: QEMU itself, or Limine from a disk, as on a PC
    #[arg(
        long,
        value_enum,
        default_value = "direct",
        hide_possible_values = true,
        value_name = "direct|limine"
    )]
    pub boot: BootWay,
    /// What starts Limine; bios is for x86_64 only
    #[arg(
        long,
        value_enum,
        hide_possible_values = true,
        value_name = "bios|uefi"
    )]
    pub firmware: Option<Firmware>,
    /// Guest memory
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = memory)]
    pub mem: String,
    /// Boot this newc archive (plain, gzip or zstd) and run its /init instead of the built-in one
    #[arg(long, value_name = "FILE")]
    pub initramfs: Option<PathBuf>,
    /// More words for the kernel's command line; after " -- " they are init's arguments
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true)]
    pub append: Option<String>,
    /// Count instructions instead of time: two runs print the same figures
    #[arg(long)]
    pub icount: bool,
    /// Wait for a debugger and print the command that attaches one
    #[arg(long)]
    pub gdb: bool,
    /// End the machine after this long, with exit status 124
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub timeout: Option<u64>,
    /// Build the kernel optimised (the default)
    #[arg(long, conflicts_with = "debug")]
    pub release: bool,
    /// Build the kernel with all checks
    #[arg(long)]
    pub debug: bool,
    /// Print the commands that would install what is missing; do not run them
    #[arg(long)]
    pub no_install: bool,
    /// More arguments for QEMU
    #[arg(last = true, value_name = "QEMU ARGUMENTS")]
    pub qemu: Vec<String>,
}

impl RunArgs {
    /// The architecture asked for.
    pub fn arch(&self) -> Arch {
        let of_machine = || Arch::of_machine(qemu::name(self.machine.as_deref()?));
        self.arch.or_else(of_machine).unwrap_or(Arch::X86_64)
    }
}

/// QEMU's way to write a size: digits and K, M or G (none means MiB).
fn memory(text: &str) -> Result<String, String> {
    let digits = text.trim_end_matches(['k', 'K', 'm', 'M', 'g', 'G']);
    let number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if number && text.len() - digits.len() <= 1 && digits.bytes().any(|byte| byte != b'0') {
        Ok(text.to_owned())
    } else {
        Err("a size is a number with K, M or G behind it, like 512M".to_owned())
    }
}

/// How many bytes a size of [`memory`]'s form is.
pub fn bytes(size: &str) -> u64 {
    let digits = size.trim_end_matches(['k', 'K', 'm', 'M', 'g', 'G']);
    let shift = match size.as_bytes().last() {
        Some(b'k' | b'K') => 10,
        Some(b'g' | b'G') => 30,
        _ => 20,
    };
    let number: u64 = digits.parse().unwrap_or(u64::MAX);
    number.saturating_mul(1 << shift)
}

/// Parses the process's command line; wrong ones end the process with status 2 and a short text.
pub fn parse() -> Cli {
    Cli::parse()
}

/// For tests: the options of a `bench` command.
#[cfg(test)]
pub fn bench_args(line: &str) -> BenchArgs {
    match Cli::try_parse_from(line.split(' ')).map(|cli| cli.command) {
        Ok(Some(Command::Bench(args))) => args,
        other => panic!("{line}: {other:?}"),
    }
}

/// For tests: the options of an `image` command.
#[cfg(test)]
pub fn image_args(line: &str) -> ImageArgs {
    match Cli::try_parse_from(line.split(' ')).map(|cli| cli.command) {
        Ok(Some(Command::Image(args))) => args,
        other => panic!("{line}: {other:?}"),
    }
}

/// For tests: the options of `run`.
#[cfg(test)]
pub fn run_args(line: &str) -> Result<RunArgs, clap::Error> {
    let cli = Cli::try_parse_from(line.split(' '))?;
    Ok(match cli.command {
        Some(Command::Run(args)) => args,
        _ => cli.run,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
            "run.sh --arch vax",
            "run.sh --nope",
            "run.sh --timeout 0",
            "run.sh --boot grub",
            "run.sh --boot limine --firmware coreboot",
            "run.sh image floppy",
            "run.sh image",
            "run.sh doctor --for vax",
        ] {
            assert_eq!(run_args(line).unwrap_err().exit_code(), 2, "{line}");
        }
        assert_eq!(
            run_args("run.sh --release --debug")
                .unwrap_err()
                .exit_code(),
            2
        );
    }
}
