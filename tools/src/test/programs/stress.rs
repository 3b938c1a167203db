//! stress-ng: a static one of the host's, or Debian's package, which is downloaded with its
//! libraries and unpacked under `target`, not installed. Quire starts no dynamic programs, but
//! glibc's loader is a static one that takes the program's name.
use super::super::{Job, console};
use super::{find_static, skipped};
use crate::arch::Arch;
use crate::build::Built;
use crate::guest::End;
use crate::initramfs::{Archive, default_archive};
use crate::install::starts;
use crate::qemu::Machine;
use crate::test::outcome::Outcome;
use crate::workspace::{self, Temporary};
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(180);
/// Where the libraries are in the guest.
const LIBRARIES: &str = "lib/stress-ng";
const PROGRAM: &str = "bin/stress-ng";

/// Those that change memory, make processes and wake threads.
const STRESSORS: [&str; 5] = ["mmap", "fork", "vm", "futex", "switch"];

/// Runs all at once, and with several CPUs each alone, too.
pub fn run(job: &Job<'_>, name: &dyn Fn(&str) -> String, built: &Built, machine: &Machine) {
    for one in STRESSORS.iter().filter(|_| machine.smp > 1) {
        job.case(name(&format!("stress_ng_{one}")), || {
            check(machine, built, &[one], 5)
        });
    }
    job.case(name("stress_ng"), || check(machine, built, &STRESSORS, 20));
}

/// Four instances of each stressor find nothing wrong.
fn check(machine: &Machine, built: &Built, stressors: &[&str], seconds: u32) -> Result<Outcome> {
    let mut machine = machine.clone();
    let mut archive = default_archive(&built.programs)?;
    let origin = match Origin::find(machine.arch) {
        Ok(origin) => origin,
        Err(why) => return skipped(&format!("{why:#}")),
    };
    let command = origin.add(&mut archive, machine.arch)?;
    let file = Temporary::file("cpio", &archive.finish()?)?;
    machine.initramfs = Some(file.path().to_owned());
    let instances: String = stressors.iter().map(|it| format!(" --{it} 4")).collect();
    machine.command_line = format!(
        "quiet -- {command}{instances} --vm-bytes 32m --mmap-bytes 16m --temp-path /tmp --verify \
         -t {seconds}"
    );
    let boot = console::boot(&machine, LIMIT)?;
    // Quire has no capabilities: capget(2) is ENOSYS.
    let fails = |line: &str| line.contains("stress-ng: fail") && !line.contains("capget");
    let failed = boot.text.lines().any(fails);
    if boot.end == End::Status(0) && boot.text.contains("successful run completed") && !failed {
        return Ok(Outcome::Passed);
    }
    Ok(Outcome::Failed(format!(
        "ended with {:?}\n{}",
        boot.end, boot.text
    )))
}

/// Where stress-ng comes from.
enum Origin {
    Static(PathBuf),
    Debian(Package),
}

impl Origin {
    /// An error is why there is none.
    fn find(arch: Arch) -> Result<Origin> {
        match find_static(arch, "STRESS_NG", &["stress-ng"]) {
            Some(path) => Ok(Origin::Static(path)),
            None => Package::of(arch).map(Origin::Debian),
        }
    }

    /// Adds it to the archive; returns the words that start it.
    fn add(&self, archive: &mut Archive, arch: Arch) -> Result<String> {
        let package = match self {
            Origin::Static(path) => {
                archive.file(PROGRAM, 0o755, &fs::read(path)?)?;
                return Ok(format!("/{PROGRAM}"));
            }
            Origin::Debian(package) => package,
        };
        let (program, loader) = (package.read("stress-ng")?, loader(arch));
        archive.folder_if_absent("lib")?;
        archive.directory(LIBRARIES)?;
        archive.file(PROGRAM, 0o755, &program)?;
        let mut wanted = vec![loader.to_owned()];
        let mut found = needed(&program)?;
        let mut at = 0;
        loop {
            found.retain(|name| !wanted.contains(name));
            wanted.append(&mut found);
            let Some(name) = wanted.get(at) else { break };
            let bytes = package.read(name)?;
            archive.file(&format!("{LIBRARIES}/{name}"), 0o755, &bytes)?;
            found = needed(&bytes)?;
            at += 1;
        }
        Ok(format!(
            "/{LIBRARIES}/{loader} --library-path /{LIBRARIES} /{PROGRAM}"
        ))
    }
}

fn loader(arch: Arch) -> &'static str {
    match arch {
        Arch::X86_64 => "ld-linux-x86-64.so.2",
        Arch::Aarch64 => "ld-linux-aarch64.so.1",
    }
}

/// The libraries that a program or a library names.
fn needed(bytes: &[u8]) -> Result<Vec<String>> {
    use object::elf::{DT_NEEDED, FileHeader64};
    use object::read::elf::{Dyn, FileHeader};
    let header = FileHeader64::<object::LittleEndian>::parse(bytes)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, bytes)?;
    let Some((entries, link)) = sections.dynamic(endian, bytes)? else {
        return Ok(Vec::new());
    };
    let strings = sections.strings(endian, bytes, link)?;
    let mut names = Vec::new();
    for entry in entries.iter().filter(|it| it.tag(endian) == DT_NEEDED) {
        names.push(String::from_utf8(entry.string(endian, strings)?.to_vec())?);
    }
    Ok(names)
}

/// The files of Debian's package and of those that it depends on, by name.
struct Package(BTreeMap<String, PathBuf>);

impl Package {
    fn of(arch: Arch) -> Result<Package> {
        // Cases run beside each other.
        static ONE: Mutex<()> = Mutex::new(());
        let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = workspace::target().join(format!("stress-ng-{arch}"));
        let root = folder.join("root");
        if !root.is_dir() {
            let tools = ["apt-get", "dpkg-deb"].iter().all(|tool| starts(tool));
            let variable = format!("QUIRE_STRESS_NG_{}", arch.name().to_uppercase());
            ensure!(
                tools,
                "no static stress-ng for {arch} on this host, nor apt-get to download it; \
                 {variable} may name one"
            );
            download(arch, &folder, &root).context("no static stress-ng on this host")?;
        }
        let mut files = BTreeMap::new();
        list(&root, &mut files)?;
        Ok(Package(files))
    }

    fn read(&self, name: &str) -> Result<Vec<u8>> {
        let path = self.0.get(name);
        let path = path.with_context(|| format!("Debian's packages have no {name}"))?;
        fs::read(path).with_context(|| format!("cannot read {}", path.display()))
    }
}

/// All files, and links to such, below a folder.
fn list(folder: &Path, files: &mut BTreeMap<String, PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() && !path.is_symlink() {
            list(&path, files)?;
        } else if let Some(name) = path.file_name().and_then(|name| name.to_str()) {
            files.insert(name.to_owned(), path);
        }
    }
    Ok(())
}

/// Downloads the packages by the host's sources, but with lists of its own, in which nothing is
/// installed, and for `arch`; unpacks them to `root`.
fn download(arch: Arch, folder: &Path, root: &Path) -> Result<()> {
    eprintln!("run.sh: downloading stress-ng and its libraries for {arch}");
    for needed in ["state/lists/partial", "cache/archives/partial"] {
        fs::create_dir_all(folder.join(needed))?;
    }
    fs::write(folder.join("state/status"), "")?;
    let debians = match arch {
        Arch::X86_64 => "amd64",
        Arch::Aarch64 => "arm64",
    };
    let place = folder.display();
    let options = [
        format!("Dir::State={place}/state"),
        format!("Dir::State::status={place}/state/status"),
        format!("Dir::Cache={place}/cache"),
        format!("APT::Architecture={debians}"),
        format!("APT::Architectures::={debians}"),
    ];
    let apt = |words: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(["-q", "-y"]);
        options.iter().for_each(|it| _ = command.args(["-o", it]));
        step(command.args(words))
    };
    apt(&["update", "--error-on=any"])?;
    apt(&["install", "-d", "--no-install-recommends", "stress-ng"])?;
    let unpacked = folder.join("unpacked");
    if unpacked.exists() {
        fs::remove_dir_all(&unpacked)?;
    }
    for entry in fs::read_dir(folder.join("cache/archives"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|it| it == "deb") {
            step(Command::new("dpkg-deb").arg("-x").args([&path, &unpacked]))?;
        }
    }
    // At last, so that it is complete when it is there.
    fs::rename(&unpacked, root)?;
    Ok(())
}

fn step(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let program = command.get_program().display().to_string();
    bail!("{program}: {}", errors.lines().next().unwrap_or("failed"))
}
