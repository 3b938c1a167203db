//! Programs of others, or built by other compilers: C with glibc and with musl, with and without
//! threads, busybox and stress-ng; and whether threads on several CPUs are quicker than one.
use super::job::Job;
use super::unit;
use anyhow::{Result, bail, ensure};
use measure::compat;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tools::host::arch::Arch;
use tools::host::compilers;
use tools::host::outcome::Outcome;
use tools::host::workspace::Temporary;
use tools::machine::build::Built;
use tools::machine::executable;
use tools::machine::guest::End;
use tools::machine::initramfs::Archive;
use tools::machine::qemu::Machine;
use tools::machine::session::{PROMPT, Session};

mod c;
pub mod foreign;
mod speedup;
pub mod stress;

const LIMIT: Duration = Duration::from_secs(120);

/// Runs the foreign programs of one architecture with so many CPUs.
pub fn run(job: &Job<'_>, arch: Arch, built: &Built, cpus: u32) {
    let name = |case: &str| format!("{}.programs.{case}", unit::name("user", arch, cpus));
    let machine = || {
        let mut machine = Machine::new(arch, built.image.clone());
        machine.smp = cpus;
        machine
    };
    for (library, compiler) in compilers::of(arch) {
        job.case(name(&format!("c_{library}")), || {
            c::check(machine(), compiler, &c::LINUX)
        });
        job.case(name(&format!("threads_{library}")), || {
            c::check(machine(), compiler, &c::THREADS)
        });
    }
    let of_foreign = |case: &str| format!("{}.foreign.{case}", unit::name("user", arch, cpus));
    foreign::run(job, &of_foreign, &machine());
    stress::run(job, &name, built, &machine());
    if cpus == 1 {
        job.case(name("busybox"), || busybox(machine()));
        job.case(name("linux_selftests"), || compat::small_set(arch, built));
    } else {
        job.case(name("speedup"), || speedup::check(machine()));
    }
}

fn skipped(reason: &str) -> Result<Outcome> {
    Ok(Outcome::Skipped(reason.to_owned()))
}

/// A static program for `arch`: the one that the environment names by `variable` and the
/// architecture, or the host's own under one of these names.
fn find_static(arch: Arch, variable: &str, names: &[&str]) -> Option<PathBuf> {
    let variable = format!("QUIRE_{variable}_{}", arch.name().to_uppercase());
    if let Some(path) = std::env::var_os(variable) {
        return Some(path.into());
    }
    let folders = ["/bin", "/usr/bin"].map(Path::new);
    let mut places = names
        .iter()
        .flat_map(|name| folders.map(|folder| folder.join(name)));
    places.find(|path| is_static(path, arch).unwrap_or(false))
}

/// Whether the file is a program for `arch` that needs no interpreter.
fn is_static(path: &Path, arch: Arch) -> Result<bool> {
    Ok(executable::machine(&std::fs::read(path)?) == Ok(Some(arch)))
}

fn busybox(mut machine: Machine) -> Result<Outcome> {
    let arch = machine.arch;
    let Some(path) = find_static(arch, "BUSYBOX", &["busybox", "busybox.static"]) else {
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
