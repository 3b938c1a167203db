//! `./run.sh run`: the guest's console on standard output, the tool's messages on standard error.
use crate::args::{self, BootWay, RunArgs};
use crate::host::arch::Arch;
use crate::host::errors::UsageError;
use crate::host::workspace::Temporary;
use crate::host::{install, packages, words, workspace};
use crate::machine::added::Added;
use crate::machine::guest::{End, Event, Guest};
use crate::machine::qemu::{self, Console, Firmware, Loader, Machine};
use crate::machine::{added, build, executable, firmware, gdb, initramfs, rootfs};
use anyhow::Result;
use rustix::fs::FileType;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use std::fs::{self, File};
use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ChildStdin;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use switches::Switch;

/// Interval at which the end of the input is sent again to a guest that still reads.
const END_OF_INPUT_EVERY: Duration = Duration::from_millis(200);
/// ^D, what a terminal takes as end of input.
const END_OF_INPUT: u8 = 4;

/// Builds, boots, and returns the exit status.
pub fn run(args: &RunArgs) -> Result<u8> {
    let mut machine = machine(args)?;
    let added = added(args, &machine)?;
    let room = memory(args, &machine);
    let root = args.rootfs.as_deref();
    let root = root
        .map(|path| rootfs::read(path, room, init_in(&machine.command_line)))
        .transpose()?;
    install::ensure_qemu(&[args.arch()], args.install.no_install)?;
    if let Loader::Limine(firmware) = machine.loader {
        packages::ensure_xorriso(args.install.no_install)?;
        if firmware == Firmware::Uefi {
            firmware::ensure(args.arch(), args.install.no_install)?;
        }
    }
    let built = build::build(args.arch(), args.debug)?;
    machine.image = match machine.loader {
        Loader::Direct => built.image,
        Loader::Limine(_) => built.limine,
    };
    let image = fs::metadata(&machine.image)?.len();
    fits("the kernel with its programs", image, args, &machine)?;
    let archive = match (root, &added[..]) {
        (Some(root), _) => Some(boot_root(root, &mut machine)?),
        (None, []) => None,
        (None, added) => Some(added::archive(
            initramfs::default_archive(&built.programs)?,
            added,
        )?),
    };
    // Kept until QEMU has ended.
    let archive = archive
        .map(|bytes| Temporary::file("cpio", &bytes))
        .transpose()?;
    if let Some(file) = &archive {
        machine.initramfs = Some(file.path().to_owned());
    }
    if args.gdb {
        let port = gdb::free_port()?;
        machine.gdb = Some(port);
        eprintln!(
            "run.sh: the machine waits for a debugger:\n{}",
            gdb::attach_command(args.arch(), &built.elf, port)
        );
    }
    let deadline = args
        .timeout
        .map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let end = if on_a_terminal() {
        on_terminal(&machine, deadline)?
    } else {
        through_pipes(&machine, deadline)?
    };
    match end {
        End::Timeout => eprintln!(
            "run.sh: time is up after {} seconds",
            args.timeout.unwrap_or_default()
        ),
        End::Reset => {
            eprintln!("run.sh: the machine ended without a status: a triple fault, or ctrl-a x")
        }
        End::Failed => eprintln!("run.sh: QEMU ended without the guest's status"),
        End::Status(_) => {}
    }
    Ok(end.status())
}

/// The archive of a root file system; its own program becomes PID 1, unless the user named one.
fn boot_root(root: rootfs::Root, machine: &mut Machine) -> Result<Vec<u8>> {
    let words = &mut machine.command_line;
    if init_in(words).is_none() {
        *words = format!("init={} {words}", root.init).trim_end().to_owned();
    }
    root.archive.finish()
}

/// The program for PID 1 that a command line names.
fn init_in(words: &str) -> Option<&str> {
    words.split(' ').find_map(|word| word.strip_prefix("init="))
}

/// The machine's memory in bytes.
fn memory(args: &RunArgs, machine: &Machine) -> u64 {
    machine
        .board()
        .map_or_else(|| args::bytes(&args.mem), |board| board.mebibytes() << 20)
}

/// Whether the guest's console is interactive.
fn on_a_terminal() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// The machine that the arguments describe; checked before anything is built.
fn machine(args: &RunArgs) -> Result<Machine> {
    if let Some(name) = &args.machine {
        qemu::check_machine(args.arch(), name)?;
    }
    let mut machine = Machine::new(args.arch(), Default::default());
    machine.loader = loader(args)?;
    machine.machine.clone_from(&args.machine);
    if machine.board().is_some() && machine.loader != Loader::Direct {
        return Err(UsageError("Limine does not start a Raspberry Pi here".to_owned()).into());
    }
    // It has neither a BIOS that knows disks nor UEFI.
    if args.machine.as_deref().map(qemu::name) == Some("microvm")
        && machine.loader != Loader::Direct
    {
        return Err(UsageError("Limine does not start a microvm".to_owned()).into());
    }
    if let Some(path) = &args.initramfs {
        let (path, size) = initramfs(path)?;
        fits(
            &format!("--initramfs {}", path.display()),
            size,
            args,
            &machine,
        )?;
        machine.initramfs = Some(path);
    }
    let mut words = args.append.clone().unwrap_or_default();
    check_switches(&words)?;
    if !on_a_terminal() {
        // Scripts, not keys: the guest's shell edits nothing, and each program gets its own part of
        // them.
        words = format!("TERM=dumb {words}").trim_end().to_owned();
    } else if let Ok(size) = rustix::termios::tcgetwinsize(io::stdout())
        && size.ws_row > 0
    {
        let (rows, columns) = (size.ws_row, size.ws_col);
        words = format!("quire.window={rows}x{columns} {words}");
        words = words.trim_end().to_owned();
    }
    if args.icount && !has_input()? {
        // Even "end of input" would arrive at a moment of the host's choosing.
        words = format!("quire.noinput {words}").trim_end().to_owned();
    }
    if machine.board().is_some() && args.smp != 1 {
        return Err(UsageError(
            "a Raspberry Pi has 4 CPUs; --append maxcpus=N starts fewer".to_owned(),
        )
        .into());
    }
    if let Some(size) = &args.swap {
        words = format!("zram={size} {words}").trim_end().to_owned();
    }
    machine.mem.clone_from(&args.mem);
    machine.smp = args.smp;
    machine.command_line = words;
    machine.icount = args.icount;
    machine.extra.clone_from(&args.qemu);
    Ok(machine)
}

/// Refuses files that are larger than the machine's memory: Limine would print that on a screen
/// only, and wait there.
fn fits(what: &str, size: u64, args: &RunArgs, machine: &Machine) -> Result<(), UsageError> {
    let room = memory(args, machine);
    if size < room {
        return Ok(());
    }
    Err(UsageError(format!(
        "{what} has {} MiB, the machine {} MiB",
        size >> 20,
        room >> 20
    )))
}

/// Refuses words that set a switch to what it cannot be: the kernel would run with its default.
fn check_switches(words: &str) -> Result<(), UsageError> {
    let kernel = words.split(' ').take_while(|word| *word != "--");
    for (name, value) in kernel.filter_map(|word| word.split_once('=')) {
        if let Some(switch) = Switch::by_name(name)
            && switch.number(value).is_none()
        {
            let option = format!("--append {name}:");
            return Err(words::unknown(&option, value, switch.words()));
        }
    }
    Ok(())
}

/// The files of `--add`.
fn added(args: &RunArgs, machine: &Machine) -> Result<Vec<Added>, UsageError> {
    let added = args.add.iter().map(|text| Added::parse(text));
    let added = added.collect::<Result<Vec<_>, _>>()?;
    let size = added.iter().map(|one| one.size).sum();
    fits("what --add brings", size, args, machine)?;
    let is_loader = |one: &Added| one.place.contains("/ld-");
    for one in added.iter().filter(|one| one.mode & 0o111 != 0) {
        let bytes = fs::read(&one.file).unwrap_or_default();
        // What is no program may be meant so; of one for the other machine, or without what it is
        // linked with, the guest would say that there is no such file.
        if bytes.starts_with(b"\x7fELF")
            && !added.iter().any(is_loader)
            && let Err(why) = executable::machine_or(&bytes, Some(machine.arch))
        {
            eprintln!("run.sh: --add: {} {why}", one.file.display());
        }
    }
    Ok(added)
}

/// The archive that a user named, and its size in bytes; checked as far as that goes without
/// reading it.
pub fn initramfs(named: &Path) -> Result<(PathBuf, u64), UsageError> {
    let path = workspace::user_path(named);
    let wrong = |why: String| UsageError(format!("--initramfs {}{why}", path.display()));
    // Opening the file gives a clearer error than QEMU's.
    let file = File::open(&path).map_err(|error| wrong(format!(": {error}")))?;
    let about = file
        .metadata()
        .map_err(|error| wrong(format!(": {error}")))?;
    if about.is_dir() {
        return Err(wrong(" is a folder".to_owned()));
    }
    // QEMU would hand over nothing, and the built-in one would start instead.
    if about.len() == 0 {
        return Err(wrong(" is empty".to_owned()));
    }
    Ok((path, about.len()))
}

/// The loader: for Limine without more options, BIOS on a PC and UEFI elsewhere.
fn loader(args: &RunArgs) -> Result<Loader, UsageError> {
    let usual = match args.arch() {
        Arch::X86_64 => Firmware::Bios,
        Arch::Aarch64 => Firmware::Uefi,
    };
    match (args.boot, args.firmware) {
        (BootWay::Direct, None) => Ok(Loader::Direct),
        (BootWay::Direct, Some(_)) => {
            Err(UsageError("--firmware goes with --boot limine".to_owned()))
        }
        (BootWay::Limine, Some(Firmware::Bios)) if args.arch() == Arch::Aarch64 => Err(UsageError(
            "aarch64 machines have no BIOS: --firmware uefi".to_owned(),
        )),
        (BootWay::Limine, firmware) => Ok(Loader::Limine(firmware.unwrap_or(usual))),
    }
}

/// Whether anything may come from standard input: a terminal, a pipe or a file, but not /dev/null.
fn has_input() -> Result<bool> {
    let stdin = io::stdin();
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&stdin)?.st_mode);
    Ok(stdin.is_terminal() || kind != FileType::CharacterDevice)
}

/// QEMU gets the terminal itself; afterwards the terminal is as it was.
fn on_terminal(machine: &Machine, deadline: Option<Instant>) -> Result<End> {
    let before = tcgetattr(io::stdin())?;
    let restore = Restore(before);
    let mut guest = Guest::start(machine, Console::Terminal, false)?;
    let end = match guest.next(deadline) {
        Event::Ended(end) => end,
        _ => End::Timeout,
    };
    drop(guest);
    drop(restore);
    Ok(end)
}

struct Restore(Termios);

impl Drop for Restore {
    fn drop(&mut self) {
        // The terminal may be gone.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
    }
}

fn through_pipes(machine: &Machine, deadline: Option<Instant>) -> Result<End> {
    let mut guest = Guest::start(machine, Console::Pipes, false)?;
    // Without a terminal and under --icount the guest knows that nothing comes; the pipe only stays
    // open.
    let keys = guest.take_keys();
    let silent = machine.icount && !has_input()?;
    let (ready, wait) = channel();
    let _open = match keys {
        Some(keys) if !silent => {
            // What arrives before the guest has set up its serial line is lost: its first word is
            // the sign.
            std::thread::spawn(move || wait.recv().is_ok_and(|()| feed(keys)));
            None
        }
        keys => keys,
    };
    let mut stdout = io::stdout().lock();
    loop {
        match guest.next(deadline) {
            Event::Output(bytes) => {
                // Only the first is waited for.
                let _ = ready.send(());
                stdout.write_all(&bytes)?;
                stdout.flush()?;
            }
            Event::Ended(end) => return Ok(end),
            Event::Nothing => return Ok(End::Timeout),
        }
    }
}

/// Passes standard input on, until the guest is gone; at its end every further read in the guest
/// finds the end, too.
fn feed(mut keys: ChildStdin) -> bool {
    let mut stdin = io::stdin().lock();
    let mut buffer = [0; 4096];
    while let Ok(length @ 1..) = stdin.read(&mut buffer) {
        if keys.write_all(&buffer[..length]).is_err() {
            return false;
        }
    }
    while keys.write_all(&[END_OF_INPUT]).is_ok() {
        std::thread::sleep(END_OF_INPUT_EVERY);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::run_args;
    use crate::host::workspace::Temporary;

    fn refused(line: &str) -> String {
        let error = machine(&run_args(line).unwrap()).unwrap_err();
        assert!(error.is::<UsageError>(), "{line}: {error}");
        error.to_string()
    }

    #[test]
    fn machines_that_are_none() {
        for (line, words) in [
            (
                "run.sh --machine vax",
                "--machine vax is none of q35, microvm, virt, raspi3b, raspi4b",
            ),
            (
                "run.sh --arch aarch64 --machine q35",
                "q35 is one of x86_64, not of aarch64, which has virt, raspi3b, raspi4b",
            ),
            ("run.sh --machine microv", "did you mean microvm?"),
            (
                "run.sh --machine raspi3b --boot limine",
                "Limine does not start a Raspberry Pi",
            ),
            (
                "run.sh --machine microvm --boot limine",
                "Limine does not start a microvm",
            ),
            (
                "run.sh --firmware uefi",
                "--firmware goes with --boot limine",
            ),
            (
                "run.sh --arch aarch64 --boot limine --firmware bios",
                "have no BIOS",
            ),
        ] {
            let error = refused(line);
            assert!(error.contains(words), "{line}: {error}");
        }
    }

    #[test]
    fn archives_that_cannot_be() {
        let folder = Temporary::folder("archives").unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        fs::write(path("empty"), "").unwrap();
        File::create(path("large"))
            .unwrap()
            .set_len(1 << 30)
            .unwrap();
        let line = |name: &str, more: &str| format!("run.sh --initramfs {}{more}", path(name));
        assert!(refused(&line("none", "")).contains("No such file"));
        assert!(refused(&line("empty", "")).contains("is empty"));
        assert!(refused(&line(".", "")).contains("is a folder"));
        for more in [
            "",
            " --boot limine --mem 512M",
            " --machine raspi3b --mem 4G",
        ] {
            let error = refused(&line("large", more));
            assert!(error.contains("has 1024 MiB, the machine "), "{error}");
        }
        assert!(machine(&run_args(&line("large", " --mem 1025")).unwrap()).is_ok());
    }
}
