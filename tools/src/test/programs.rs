//! Programs of others, or built by other compilers: C with glibc and with musl, and busybox.
use super::session::Session;
use super::{Job, console, inputs};
use crate::arch::Arch;
use crate::build::Built;
use crate::guest::End;
use crate::initramfs::Archive;
use crate::qemu::Machine;
use crate::report::Outcome;
use crate::workspace::{self, Temporary};
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);

/// Runs the foreign programs of one architecture.
pub fn run(job: &Job<'_>, arch: Arch, built: &Built) {
    for (library, compiler) in compilers(arch) {
        job.case(format!("user.{arch}.programs.c_{library}"), || {
            c_program(arch, built, compiler)
        });
    }
    job.case(format!("user.{arch}.programs.busybox"), || {
        busybox(arch, built)
    });
}

/// Which C compilers make static programs for `arch` on this host, and for which library.
fn compilers(arch: Arch) -> &'static [(&'static str, &'static str)] {
    match arch {
        Arch::X86_64 if std::env::consts::ARCH == "x86_64" => {
            &[("glibc", "gcc"), ("musl", "musl-gcc")]
        }
        Arch::X86_64 => &[
            ("glibc", "x86_64-linux-gnu-gcc"),
            ("musl", "x86_64-linux-musl-gcc"),
        ],
        Arch::Aarch64 if std::env::consts::ARCH == "aarch64" => {
            &[("glibc", "gcc"), ("musl", "musl-gcc")]
        }
        Arch::Aarch64 => &[
            ("glibc", "aarch64-linux-gnu-gcc"),
            ("musl", "aarch64-linux-musl-gcc"),
        ],
    }
}

fn skipped(reason: &str) -> Result<Outcome> {
    Ok(Outcome::Skipped(reason.to_owned()))
}

fn there(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok()
}

/// tests/c/linux.c as /init prints the same as on Linux, and ends with the same status.
fn c_program(arch: Arch, built: &Built, compiler: &str) -> Result<Outcome> {
    if !there(compiler) {
        return skipped(&format!("{compiler} is not installed"));
    }
    let source = workspace::root().join("tests/c/linux.c");
    let program = workspace::images(arch).join(format!("linux-{compiler}"));
    let compiled = Command::new(compiler)
        .args(["-static", "-O1", "-Wall", "-Werror", "-o"])
        .args([&program, &source])
        .output()
        .with_context(|| format!("cannot start {compiler}"))?;
    ensure!(
        compiled.status.success(),
        "{compiler}: {}",
        String::from_utf8_lossy(&compiled.stderr)
    );
    let Some((expected, status)) = on_linux(arch, &program)? else {
        return skipped("no Linux here that runs the program, to compare with");
    };
    let bytes = std::fs::read(&program)?;
    let archive = Temporary::file("cpio", &inputs::with_init(&bytes)?)?;
    let mut machine = Machine::new(arch, built.image.clone());
    machine.initramfs = Some(archive.path().to_owned());
    machine.command_line = "quiet".to_owned();
    let boot = console::boot(&machine, LIMIT)?;
    ensure!(
        expected.lines().count() > 5,
        "the program says too little on Linux:\n{expected}"
    );
    if boot.text.contains(&expected) && boot.end == End::Status(status) {
        return Ok(Outcome::Passed);
    }
    Ok(Outcome::Failed(format!(
        "ended with {:?}; Linux prints, and ends with {status}:\n{expected}\nQuire prints:\n{}",
        boot.end, boot.text
    )))
}

/// What the program prints on this host's Linux, by user-mode emulation when it is for another
/// machine.
fn on_linux(arch: Arch, program: &Path) -> Result<Option<(String, u8)>> {
    let mut command = if std::env::consts::OS != "linux" {
        return Ok(None);
    } else if std::env::consts::ARCH == arch.name() {
        Command::new(program)
    } else {
        let emulators = [format!("qemu-{arch}-static"), format!("qemu-{arch}")];
        let Some(emulator) = emulators.iter().find(|name| there(name)) else {
            return Ok(None);
        };
        let mut command = Command::new(emulator);
        command.arg(program);
        command
    };
    let output = command.stdin(Stdio::null()).output()?;
    let status = output
        .status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .context("the program died on Linux")?;
    Ok(Some((String::from_utf8(output.stdout)?, status)))
}

/// A static busybox for `arch`: the host's own, or the one that the environment names.
fn find_busybox(arch: Arch) -> Option<PathBuf> {
    if let Some(path) = std::env::var_os(format!("QUIRE_BUSYBOX_{}", arch.name().to_uppercase())) {
        return Some(path.into());
    }
    let candidates = [
        "/bin/busybox",
        "/usr/bin/busybox",
        "/bin/busybox.static",
        "/usr/bin/busybox.static",
    ];
    candidates
        .iter()
        .map(PathBuf::from)
        .find(|path| is_static(path, arch).unwrap_or(false))
}

/// Whether the file is a program for `arch` that needs no interpreter.
fn is_static(path: &Path, arch: Arch) -> Result<bool> {
    use object::elf::{EM_AARCH64, EM_X86_64, FileHeader64, PT_INTERP};
    use object::read::elf::{FileHeader, ProgramHeader};
    let bytes = std::fs::read(path)?;
    let header = FileHeader64::<object::LittleEndian>::parse(&*bytes)?;
    let endian = header.endian()?;
    let machine = match arch {
        Arch::X86_64 => EM_X86_64,
        Arch::Aarch64 => EM_AARCH64,
    };
    let dynamic = header
        .program_headers(endian, &*bytes)?
        .iter()
        .any(|one| one.p_type(endian) == PT_INTERP);
    Ok(header.e_machine.get(endian) == machine && !dynamic)
}

fn busybox(arch: Arch, built: &Built) -> Result<Outcome> {
    let Some(path) = find_busybox(arch) else {
        return skipped(&format!("no static busybox for {arch} on this host"));
    };
    let mut archive = Archive::default();
    for directory in ["bin", "dev", "proc", "sys", "tmp", "etc"] {
        archive.directory(directory)?;
    }
    archive.file("bin/busybox", 0o755, &std::fs::read(&path)?)?;
    archive.link("bin/sh", "busybox")?;
    archive.file("init", 0o755, INIT.as_bytes())?;
    let file = Temporary::file("cpio", &archive.finish()?)?;
    let mut machine = Machine::new(arch, built.image.clone());
    machine.initramfs = Some(file.path().to_owned());
    machine.command_line = "quiet".to_owned();
    let mut session = Session::start(&machine)?;
    talk(&mut session)?;
    let end = session.end()?;
    if end != End::Status(7) {
        bail!("the shell's exit 7 became {end:?}");
    }
    Ok(Outcome::Passed)
}

/// The prompt of the shell in [`INIT`].
pub const PROMPT: &str = "quire# ";

/// PID 1 begins without a session, as on Linux: the shell gets one, and the console as its
/// terminal.
const INIT: &str = "#!/bin/sh
export PATH=/bin PS1='quire# '
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
exec setsid -c sh +m -i
";

/// Commands that a user would try first.
fn talk(session: &mut Session) -> Result<()> {
    let contains = |output: String, words: &str| -> Result<()> {
        ensure!(output.contains(words), "{words:?} is not in:\n{output}");
        Ok(())
    };
    session.expect(PROMPT)?;
    contains(session.command("ls -l /")?, "proc")?;
    contains(session.command("cat /proc/version")?, "Linux version")?;
    contains(session.command("ps")?, "PID   USER")?;
    contains(session.command("free")?, "Mem:")?;
    contains(session.command("top -b -n1")?, "CPU:")?;
    contains(
        session.command("uname -m; echo hel''lo > /tmp/a; cat /tmp/a; rm /tmp/a; ls /tmp")?,
        "hello",
    )?;
    let five = "seq 1 1000 | grep 7 | sed s/7/seven/ | sort -r | wc -l";
    contains(session.command(five)?, "271")?;
    contains(
        session
            .command("i=0; while [ $i -lt 1000 ]; do (exit 3); i=$((i+$?)); done; echo sum $i")?,
        "sum 1002",
    )?;
    // The same with a thousand turns, each a child with work to do.
    contains(
        session.command(
            "i=0; while [ $i -lt 1000 ]; do x=$(echo $i); i=$((x+1)); done; echo made $i",
        )?,
        "made 1000",
    )?;
    // vi takes the whole screen and gives it back. It takes keys that come too fast for an escape
    // sequence, so each step waits for what it shows.
    for (keys, shown) in [
        ("vi /tmp/text\n", "- /tmp/text"),
        ("i", "I /tmp/text"),
        // Drawn in one piece or several; the cursor ends in column 14.
        ("hello from vi", "[1;14H"),
        ("\x1b", "[Modified]"),
        (":wq\n", PROMPT),
    ] {
        session.send(keys)?;
        session.expect(shown)?;
    }
    contains(session.command("cat /tmp/text")?, "hello from vi")?;
    // ^C ends what runs, not the shell.
    session.send("echo rea''dy; cat\n")?;
    session.expect("ready\n")?;
    session.send("typed\n")?;
    session.expect("typed\ntyped\n")?;
    session.send("\x03")?;
    session.expect(PROMPT)?;
    contains(session.command("echo still here")?, "still here")?;
    session.send("exit 7\n")
}
