//! A sandbox for code that nobody here has read: no network, no file but those that it needs, and
//! limits of memory, time and what it writes.
//!
//! `unshare` of util-linux gives it namespaces of its own: users, network, IPC, processes, which
//! all end with the first. In them this program runs itself as `sandboxed`, which gives up files by
//! Landlock, takes the limits and runs the command.
use super::seams;
use anyhow::{Context, Result, bail};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Resource, Rlimit, Signal, setrlimit};
use std::env;
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::OnceLock;
use tools::args::SandboxedArgs;
use tools::host::workspace;

/// Of virtual memory, for each process.
const MEMORY: u64 = 4 << 30;
/// Of one user in these namespaces.
const PROCESSES: u64 = 1024;
/// Of a file.
const FILE: u64 = 2 << 30;

/// A shell's status of what a signal ends, less its number.
const BY_SIGNAL: i32 = 128;

/// What cargo reads of its folder, which has secrets, too.
const OF_CARGO: [&str; 5] = ["bin", "config", "config.toml", "git", "registry"];

/// Whether code is closed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sandbox {
    /// It is.
    Closed,
    /// It is not: it is one's own, or trusted by `--trust`.
    Open,
}

impl Sandbox {
    /// Closed for what is not trusted; an error where that cannot be.
    pub fn of(trusted: bool) -> Result<Sandbox> {
        if trusted {
            return Ok(Sandbox::Open);
        }
        let sandbox = Sandbox::Closed;
        let tried = sandbox.program(Command::new("true"), 10).output();
        let why = match tried {
            Ok(output) if output.status.success() => return Ok(sandbox),
            Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            Err(error) => format!("unshare: {error}"),
        };
        bail!(
            "there is no sandbox for others' code here (it needs Linux 5.13 with Landlock, user \
             namespaces, and unshare of util-linux): {why}\nWhoever trusts all of these files adds \
             --trust."
        )
    }

    /// A build: in the sandbox it reads this checkout, the copy of it with the seams of the labs
    /// and the toolchain, and writes what is built and a folder for temporary files. Each of its
    /// processes may take so many seconds of a CPU.
    pub fn build(self, mut command: Command, temporary: &Path, seconds: u64) -> Command {
        if self == Sandbox::Open {
            return command;
        }
        let home = |variable: &str, name: &str| {
            let home = env::var_os("HOME").map(|home| Path::new(&home).join(name));
            env::var_os(variable).map(PathBuf::from).or(home)
        };
        let cargo = home("CARGO_HOME", ".cargo").unwrap_or_default();
        let mut reads: Vec<PathBuf> = OF_CARGO.map(|part| cargo.join(part)).into();
        reads.extend(home("RUSTUP_HOME", ".rustup"));
        reads.extend([workspace::root().to_owned(), seams::folder()]);
        command.env("TMPDIR", temporary);
        self.command(command, &reads, &[&seams::builds(), temporary], seconds)
    }

    /// A program, which has limits in any case. In the sandbox it reads itself and writes nothing.
    pub fn program(self, command: Command, seconds: u64) -> Command {
        let own = [PathBuf::from(command.get_program())];
        self.command(command, &own, &[], seconds)
    }

    fn command(
        self,
        command: Command,
        reads: &[PathBuf],
        writes: &[&Path],
        seconds: u64,
    ) -> Command {
        let own = own();
        let mut closed = match self {
            Sandbox::Open => Command::new(own),
            Sandbox::Closed => {
                let mut unshare = Command::new("unshare");
                unshare.args(["--user", "--map-current-user", "--net", "--ipc", "--pid"]);
                unshare.args(["--fork", "--kill-child", "--"]).arg(own);
                unshare
            }
        };
        closed.arg("sandboxed").arg(format!("--seconds={seconds}"));
        if self == Sandbox::Open {
            closed.arg("--open");
        }
        for path in reads {
            closed.arg("--read").arg(path);
        }
        for folder in writes {
            closed.arg("--write").arg(folder);
        }
        closed
            .arg("--")
            .arg(command.get_program())
            .args(command.get_args());
        if self == Sandbox::Closed {
            closed.env_clear();
            closed.envs(env::vars_os().filter(|(name, _)| is_handed_on(name)));
        }
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => closed.env(name, value),
                None => closed.env_remove(name),
            };
        }
        if let Some(folder) = command.get_current_dir() {
            closed.current_dir(folder);
        }
        closed
    }
}

/// This program, by a descriptor that all of its processes inherit: its file may be replaced while
/// it grades.
fn own() -> PathBuf {
    static OPEN: OnceLock<Option<File>> = OnceLock::new();
    let open = || {
        let file = File::open("/proc/self/exe").ok()?;
        fcntl_setfd(&file, FdFlags::empty()).ok()?;
        Some(file)
    };
    match OPEN.get_or_init(open) {
        Some(file) => PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd())),
        None => env::current_exe().unwrap_or_default(),
    }
}

/// Why the sandbox itself did not start, if what a command says first is that.
pub fn failed(errors: &str) -> Option<&str> {
    let first = errors.lines().next()?;
    let ours = ["unshare: ", "run.sh: "];
    ours.iter()
        .any(|begin| first.starts_with(begin))
        .then_some(first)
}

/// Whether a variable of the environment is known inside: what builds depend on.
fn is_handed_on(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let of_builds = name.starts_with("CARGO") || name.starts_with("RUST");
    of_builds && !name.contains("TOKEN") || ["HOME", "LANG", "PATH"].contains(&&*name)
}

/// Whether a command was ended since its time was over.
pub fn is_late(status: ExitStatus) -> bool {
    let signal = Signal::XCPU.as_raw();
    status.signal() == Some(signal) || status.code() == Some(BY_SIGNAL + signal)
}

/// The second half, in the namespaces: runs the command, and ends as it does, with 128 and the
/// number of the signal where one ends it. The first process of a namespace gets no signals, so
/// this one stays.
pub fn sandboxed(args: &SandboxedArgs) -> Result<u8> {
    let limit = |resource, most: u64| {
        let limit = Rlimit {
            current: Some(most),
            maximum: Some(most),
        };
        setrlimit(resource, limit).with_context(|| format!("{resource:?}"))
    };
    limit(Resource::As, MEMORY)?;
    limit(Resource::Core, 0)?;
    limit(Resource::Fsize, FILE)?;
    // The first is told by SIGXCPU, the last is killed.
    let seconds = Rlimit {
        current: Some(args.seconds),
        maximum: Some(args.seconds + 5),
    };
    setrlimit(Resource::Cpu, seconds)?;
    let (program, rest) = args.command.split_first().context("no command")?;
    let mut command = Command::new(program);
    command.args(rest);
    let about = || format!("cannot start {}", program.display());
    if args.open {
        return Err(command.exec()).with_context(about);
    }
    // Outside it would count all that the user runs.
    limit(Resource::Nproc, PROCESSES)?;
    give_up_files(&args.read, &args.write)?;
    let status = command.status().with_context(about)?;
    let signal = status.signal().map(|signal| BY_SIGNAL + signal);
    Ok(status.code().or(signal).unwrap_or(1) as u8)
}

/// What every program reads.
#[cfg(target_os = "linux")]
const SYSTEM: [&str; 8] = [
    "/usr",
    "/bin",
    "/lib",
    "/lib64",
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/dev/urandom",
    "/proc",
];

#[cfg(target_os = "linux")]
fn give_up_files(read: &[PathBuf], write: &[PathBuf]) -> Result<()> {
    use landlock::{
        ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr,
        RulesetCreatedAttr, RulesetStatus, Scope, path_beneath_rules,
    };
    let newest = ABI::V6;
    let rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V1))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(newest))?
        .handle_access(AccessNet::from_all(newest))?
        .scope(Scope::from_all(newest))?;
    let status = rules
        .create()?
        .add_rules(path_beneath_rules(SYSTEM, AccessFs::from_read(newest)))?
        .add_rules(path_beneath_rules(read, AccessFs::from_read(newest)))?
        .add_rules(path_beneath_rules(
            ["/dev/null"],
            AccessFs::from_file(newest),
        ))?
        .add_rules(path_beneath_rules(write, AccessFs::from_all(newest)))?
        .restrict_self()?;
    if status.ruleset == RulesetStatus::NotEnforced {
        bail!("Landlock is not there");
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn give_up_files(_read: &[PathBuf], _write: &[PathBuf]) -> Result<()> {
    bail!("only Linux has Landlock")
}
