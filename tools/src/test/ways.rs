//! `./run.sh test --machine`: the suite in the kernel, a shell and bad input on every way to boot.
//! `way.WAY.boot.CASE`, `way.WAY.kernel.TEST`, `way.WAY.selftests.TEST`.
use super::session::Session;
use super::{Job, console, inputs, kernel, programs, suite, tinyelf};
use crate::arch::Arch;
use crate::args::{Level, TestArgs};
use crate::build::{self, Built};
use crate::guest::End;
use crate::install::{self, GOOD_QEMU};
use crate::qemu::{Firmware, Loader, Machine};
use crate::raspi::Board;
use crate::report::Outcome;
use crate::workspace::Temporary;
use crate::{UsageError, firmware, limine, packages};
use anyhow::{Context, Result, ensure};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(240);

/// A way to boot: its name, QEMU's machine, what loads the kernel.
struct Way {
    name: &'static str,
    arch: Arch,
    machine: &'static str,
    loader: Loader,
}

const fn way(name: &'static str, arch: Arch, machine: &'static str, loader: Loader) -> Way {
    Way {
        name,
        arch,
        machine,
        loader,
    }
}

const BIOS: Loader = Loader::Limine(Firmware::Bios);
const UEFI: Loader = Loader::Limine(Firmware::Uefi);

const WAYS: [Way; 7] = [
    way("q35", Arch::X86_64, "q35", Loader::Direct),
    way("q35-bios", Arch::X86_64, "q35", BIOS),
    way("q35-uefi", Arch::X86_64, "q35", UEFI),
    way("virt", Arch::Aarch64, "virt", Loader::Direct),
    way("virt-uefi", Arch::Aarch64, "virt", UEFI),
    way("raspi3b", Arch::Aarch64, "raspi3b", Loader::Direct),
    way("raspi4b", Arch::Aarch64, "raspi4b", Loader::Direct),
];

/// Tests on the ways that `names` (commas between them, or "all") asks for.
pub fn run(job: &Job<'_>, names: &str, args: &TestArgs) -> Result<()> {
    let unknown = names
        .split(',')
        .find(|name| *name != "all" && WAYS.iter().all(|way| way.name != *name));
    if let Some(name) = unknown {
        let known: Vec<&str> = WAYS.iter().map(|way| way.name).collect();
        return Err(UsageError(format!(
            "--machine {name} is none of {}, all",
            known.join(", ")
        ))
        .into());
    }
    let asked = |way: &&Way| {
        names
            .split(',')
            .any(|name| name == "all" || name == way.name)
    };
    for arch in Arch::ALL {
        let ways: Vec<&Way> = WAYS
            .iter()
            .filter(asked)
            .filter(|way| way.arch == arch)
            .collect();
        let wanted = ways
            .iter()
            .any(|way| job.may_want(&format!("way.{}.", way.name)));
        if !wanted || !args.arch.arches().contains(&arch) {
            continue;
        }
        install::ensure_qemu(&[arch], args.no_install)?;
        let built = build::build(arch, false)?;
        for way in ways {
            run_way(job, way, &built, args)?;
        }
    }
    Ok(())
}

fn run_way(job: &Job<'_>, way: &Way, built: &Built, args: &TestArgs) -> Result<()> {
    let name = format!("way.{}", way.name);
    if !job.may_want(&format!("{name}.")) {
        return Ok(());
    }
    if let Some(why) = missing(way) {
        job.report.add(name, Outcome::Skipped(why), None);
        return Ok(());
    }
    let machine = way.machine(built);
    if args.only != Some(Level::User) {
        cases(job, way, &machine)?;
        if job.may_want(&format!("{name}.kernel.")) {
            kernel::run_on(job, &format!("{name}.kernel"), machine.clone())?;
        }
    }
    if args.only != Some(Level::Kernel) && job.may_want(&format!("{name}.selftests.")) {
        suite::run_on(job, format!("{name}.selftests"), machine)?;
    }
    Ok(())
}

/// Why a way cannot be tried here.
fn missing(way: &Way) -> Option<String> {
    let (major, _) = install::qemu_version(way.arch)?;
    if way.machine == "raspi4b" && major < GOOD_QEMU {
        return Some(format!("QEMU {major} has no raspi4b"));
    }
    let Loader::Limine(by) = way.loader else {
        return None;
    };
    if !packages::has_xorriso() {
        return Some(format!("no xorriso: {}", packages::XORRISO.how()));
    }
    if by == Firmware::Uefi && firmware::find(way.arch).is_none() {
        return firmware::get(way.arch).err().map(|error| error.to_string());
    }
    limine::folder().err().map(|error| format!("{error:#}"))
}

impl Way {
    fn machine(&self, built: &Built) -> Machine {
        let image = match self.loader {
            Loader::Direct => &built.image,
            Loader::Limine(_) => &built.limine,
        };
        let mut machine = Machine::new(self.arch, image.clone());
        machine.machine = Some(self.machine.to_owned());
        machine.loader = self.loader;
        machine
    }
}

/// The tool's own cases on one way.
fn cases(job: &Job<'_>, way: &Way, machine: &Machine) -> Result<()> {
    let name = |case: &str| format!("way.{}.boot.{case}", way.name);
    job.case(name("shell"), || shell(machine));
    let sound = inputs::with_init(&tinyelf::exit(way.arch, 3))?;
    job.case(name("initramfs"), || ends(machine, Some(&sound), &[], 3));
    job.case(name("cut_initramfs"), || {
        ends(
            machine,
            Some(&sound[..sound.len() * 2 / 3]),
            &["cannot unpack the initramfs"],
            101,
        )
    });
    job.case(name("no_init"), || {
        ends(
            machine,
            Some(&inputs::without_init()?),
            &["cannot start /init"],
            101,
        )
    });
    job.case(name("long_command_line"), || {
        let mut machine = machine.clone();
        machine.command_line = format!("{} quire.last", "w".repeat(4096 - " quire.last".len()));
        let last = "unknown command-line word \"quire.last\"";
        ends(&machine, Some(&sound), &[last], 3)
    });
    job.case(name("panic_report"), || {
        let mut machine = machine.clone();
        machine.command_line = "quire.crash=panic".to_owned();
        ends(
            &machine,
            None,
            &["asked for on the command line", "quire::"],
            101,
        )
    });
    job.case(name("no_serial_port"), || {
        let mut machine = machine.clone();
        machine.serial = false;
        ends(&machine, Some(&sound), &[], 3)
    });
    if let Some(board) = machine.board() {
        job.case(name("no_device_tree"), || built_in(machine, board));
    }
    if way.arch == Arch::X86_64 {
        job.case(name("keyboard"), || keyboard(machine));
    }
    if machine.loader != Loader::Direct || machine.board().is_some() {
        job.case(name("screen"), || screen(machine));
    }
    if machine.board().is_none() {
        // UEFI and Limine do not get along with 128 MiB themselves: Limine says "High memory allocator: Out of memory".
        let least = if machine.loader == UEFI {
            "256M"
        } else {
            "128M"
        };
        for mem in [least, "4G"] {
            job.case(name(&format!("memory_{}", mem.to_lowercase())), || {
                let mut machine = machine.clone();
                machine.mem = mem.to_owned();
                ends(&machine, Some(&sound), &[], 3)
            });
        }
        job.case(name("memory_64g"), || much_memory(machine, &sound));
    }
    Ok(())
}

/// Boots with an initramfs; it must say all of `says` and end with `status`.
fn ends(machine: &Machine, initramfs: Option<&[u8]>, says: &[&str], status: u8) -> Result<Outcome> {
    let mut machine = machine.clone();
    let file = Temporary::name("cpio");
    if let Some(bytes) = initramfs {
        std::fs::write(file.path(), bytes)?;
        machine.initramfs = Some(file.path().to_owned());
    }
    let boot = console::boot(&machine, LIMIT)?;
    ensure!(
        boot.end == End::Status(status),
        "ended with {:?}, not {status}\n{}",
        boot.end,
        boot.text
    );
    for words in says {
        ensure!(
            boot.text.contains(words),
            "the console does not say {words:?}\n{}",
            boot.text
        );
    }
    Ok(Outcome::Passed)
}

/// A person types at the prompt, and the machine ends with the shell's status.
fn shell(machine: &Machine) -> Result<Outcome> {
    let mut machine = machine.clone();
    machine.command_line = "quiet -- sh".to_owned();
    let mut session = Session::start(&machine)?;
    session.expect(programs::PROMPT)?;
    let said = session.command("cat /proc/cmdline")?;
    ensure!(said.contains("quiet -- sh"), "the shell says {said:?}");
    session.send("exit 9\n")?;
    let end = session.end()?;
    ensure!(end == End::Status(9), "the machine ended with {end:?}");
    Ok(Outcome::Passed)
}

/// A Raspberry Pi whose firmware passes no device tree: no command line, no initramfs, but the built-in ones.
/// How much memory there is, it tells when it is asked; part of it is the GPU's.
fn built_in(machine: &Machine, board: Board) -> Result<Outcome> {
    let mut machine = machine.clone();
    machine.device_tree = false;
    let mut session = Session::start(&machine)?;
    session.expect("(no device tree)")?;
    session.expect("memory: ")?;
    let said = session.expect(" MiB,")?;
    let mebibytes: u64 = said.parse()?;
    let most = board.mebibytes();
    ensure!(
        (most * 9 / 10..most).contains(&mebibytes),
        "{mebibytes} MiB of {most}"
    );
    session.expect(programs::PROMPT)?;
    session.send("exit 9\n")?;
    let end = session.end()?;
    ensure!(end == End::Status(9), "the machine ended with {end:?}");
    Ok(Outcome::Passed)
}

/// What is typed at the PC's own keyboard reaches the shell.
fn keyboard(machine: &Machine) -> Result<Outcome> {
    let mut machine = machine.clone();
    machine.command_line = "quiet -- sh".to_owned();
    let monitor = Monitor::new(&mut machine);
    let mut session = Session::start(&machine)?;
    session.expect(programs::PROMPT)?;
    for key in "e x i t spc 1 1 ret".split(' ') {
        monitor.say(&format!("sendkey {key} 20"))?;
    }
    let end = session.end()?;
    ensure!(end == End::Status(11), "the machine ended with {end:?}");
    Ok(Outcome::Passed)
}

/// The prompt is on the screen: in the first row of characters there are pixels that are not black, in the last there are none.
fn screen(machine: &Machine) -> Result<Outcome> {
    let mut machine = machine.clone();
    machine.command_line = "quiet -- sh".to_owned();
    let monitor = Monitor::new(&mut machine);
    let mut session = Session::start(&machine)?;
    session.expect(programs::PROMPT)?;
    // The answer comes over the same console, behind everything that was shown.
    session.command("true")?;
    let shot = Temporary::name("ppm");
    let answer = monitor.say(&format!("screendump {}", shot.path().display()))?;
    session.send("exit 0\n")?;
    session.end()?;
    let picture = std::fs::read(shot.path()).with_context(|| format!("no screendump: {answer}"))?;
    let lit = lit_rows(&picture).context("the screendump is no PPM")?;
    ensure!(
        lit.iter().take(16).any(|lit| *lit),
        "the first row of characters is black"
    );
    ensure!(
        !lit.iter().rev().take(16).any(|lit| *lit),
        "the last row of characters is not black"
    );
    Ok(Outcome::Passed)
}

/// Which rows of a binary PPM (magic, width, height, 255, each with whitespace behind it) have a pixel that is not black.
fn lit_rows(picture: &[u8]) -> Option<Vec<bool>> {
    let mut fields = picture.splitn(4, |byte| byte.is_ascii_whitespace());
    let (magic, width) = (fields.next()?, fields.next()?);
    let width: usize = std::str::from_utf8(width).ok()?.parse().ok()?;
    let pixels = fields.nth(1)?.strip_prefix(b"255\n")?;
    (magic == b"P6").then(|| {
        pixels
            .chunks(3 * width)
            .map(|row| row.iter().any(|b| *b != 0))
            .collect()
    })
}

/// QEMU's monitor, at a socket.
struct Monitor(Temporary);

impl Monitor {
    fn new(machine: &mut Machine) -> Self {
        let socket = Temporary::name("monitor");
        let path = socket.path().display();
        machine.extra.extend([
            "-chardev".to_owned(),
            format!("socket,id=monitor,path={path},server=on,wait=off"),
            "-mon".to_owned(),
            "chardev=monitor,mode=readline".to_owned(),
        ]);
        Monitor(socket)
    }

    /// Gives one command and returns what came until the prompt behind it.
    fn say(&self, command: &str) -> Result<String> {
        let mut socket = UnixStream::connect(self.0.path())?;
        socket.set_read_timeout(Some(LIMIT))?;
        socket.write_all(format!("{command}\n").as_bytes())?;
        let (mut said, mut byte) = (Vec::new(), [0]);
        // One prompt is before the command, one behind it.
        while said.windows(7).filter(|words| words == b"(qemu) ").count() < 2
            && socket.read(&mut byte)? > 0
        {
            said.push(byte[0]);
        }
        Ok(String::from_utf8_lossy(&said).into_owned())
    }
}

/// 64 GiB that QEMU takes from a file with nothing in it.
fn much_memory(machine: &Machine, initramfs: &[u8]) -> Result<Outcome> {
    let file = Temporary::name("memory");
    std::fs::File::create(file.path())?.set_len(64 << 30)?;
    let mut machine = machine.clone();
    machine.mem = "64G".to_owned();
    let path = file.path().display();
    machine.extra = vec![
        "-object".to_owned(),
        format!("memory-backend-file,id=ram,size=64G,mem-path={path},share=on"),
        "-machine".to_owned(),
        "memory-backend=ram".to_owned(),
    ];
    ends(&machine, Some(initramfs), &[], 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_picture() {
        let picture = b"P6\n2 3\n255\n\0\0\0\0\0\0\0\0\x20\0\0\0\0\0\0\0\0\0";
        assert_eq!(lit_rows(picture).unwrap(), [false, true, false]);
        assert_eq!(lit_rows(b"P5\n2 3\n255\n"), None);
    }
}
