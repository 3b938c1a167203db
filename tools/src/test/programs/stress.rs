//! stress-ng: a static one of the host's, or Debian's package with its libraries.
use super::super::{Job, console};
use super::foreign::elf;
use super::{find_static, skipped};
use crate::arch::Arch;
use crate::build::Built;
use crate::debian;
use crate::guest::End;
use crate::initramfs::{Archive, default_archive};
use crate::qemu::Machine;
use crate::test::outcome::Outcome;
use crate::workspace::Temporary;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(180);
/// Some do not look at the clock before they have done a whole round.
const LONG_LIMIT: Duration = Duration::from_secs(900);
/// Where the libraries are in the guest: glibc's loader looks there.
const LIBRARIES: &str = "lib";
const PROGRAM: &str = "bin/stress-ng";

/// Those that change memory, make processes and wake threads, and those that wait for sockets of
/// AF_UNIX. (The stressor sock asks for TCP in every family, so Linux refuses it, too.)
const STRESSORS: [&str; 10] = [
    "mmap",
    "fork",
    "vm",
    "futex",
    "switch",
    "sem",
    "epoll",
    "sockfd",
    "sockpair",
    "userfaultfd",
];

/// More of `test --long`: those that make areas, grow until memory is full, and touch what is not
/// there.
const MORE: [&str; 12] = [
    "bigheap",
    "brk",
    "madvise",
    "malloc",
    "mprotect",
    "mremap",
    "munmap",
    "pagemove",
    "pipe",
    "stack",
    "userfaultfd",
    "vm-segv",
];

/// Runs each stressor alone for 20 s.
pub fn long(machine: &Machine, built: &Built) -> Result<Outcome> {
    let boot = |machine: &Machine| console::boot_patiently(machine, LONG_LIMIT);
    for one in STRESSORS.into_iter().chain(MORE) {
        match check(machine, built, &[one], 20, boot)? {
            Outcome::Passed => println!("      | stress-ng {one}: passed"),
            Outcome::Failed(why) => return Ok(Outcome::Failed(format!("{one}: {why}"))),
            skipped => return Ok(skipped),
        }
    }
    Ok(Outcome::Passed)
}

/// Runs all at once, and with several CPUs each alone, too.
pub fn run(job: &Job<'_>, name: &dyn Fn(&str) -> String, built: &Built, machine: &Machine) {
    let boot = |machine: &Machine| console::boot(machine, LIMIT);
    for one in STRESSORS.iter().filter(|_| machine.smp > 1) {
        job.case(name(&format!("stress_ng_{one}")), || {
            check(machine, built, &[one], 5, boot)
        });
    }
    job.case(name("stress_ng"), || {
        check(machine, built, &STRESSORS, 20, boot)
    });
}

/// Four instances of each stressor find nothing wrong.
fn check(
    machine: &Machine,
    built: &Built,
    stressors: &[&str],
    seconds: u32,
    boot: impl Fn(&Machine) -> Result<console::Boot>,
) -> Result<Outcome> {
    let mut machine = machine.clone();
    let mut archive = default_archive(&built.programs)?;
    let origin = match Origin::find(machine.arch) {
        Ok(origin) => origin,
        Err(why) => return skipped(&format!("{why:#}")),
    };
    let command = origin.add(&mut archive)?;
    let file = Temporary::file("cpio", &archive.finish()?)?;
    machine.initramfs = Some(file.path().to_owned());
    let instances: String = stressors.iter().map(|it| format!(" --{it} 4")).collect();
    machine.command_line = format!(
        "quiet -- {command}{instances} --vm-bytes 32m --mmap-bytes 16m --epoll-domain unix \
         --temp-path /tmp --verify -t {seconds}"
    );
    let boot = boot(&machine)?;
    let failed = boot.text.contains("stress-ng: fail");
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
    fn add(&self, archive: &mut Archive) -> Result<String> {
        let package = match self {
            Origin::Static(path) => {
                archive.file(PROGRAM, 0o755, &fs::read(path)?)?;
                return Ok(format!("/{PROGRAM}"));
            }
            Origin::Debian(package) => package,
        };
        let program = package.read("stress-ng")?;
        let interpreter = elf::interpreter(&program)?;
        let interpreter = interpreter.trim_start_matches('/');
        for (at, _) in interpreter.match_indices('/') {
            archive.folder_if_absent(&interpreter[..at])?;
        }
        let loader = interpreter.rsplit('/').next().unwrap_or_default();
        archive.file(interpreter, 0o755, &package.read(loader)?)?;
        archive.folder_if_absent(LIBRARIES)?;
        archive.file(PROGRAM, 0o755, &program)?;
        let mut wanted = vec![loader.to_owned()];
        let mut found = elf::needed(&program)?;
        let mut at = 1;
        loop {
            found.retain(|name| !wanted.contains(name));
            wanted.append(&mut found);
            let Some(name) = wanted.get(at) else { break };
            let bytes = package.read(name)?;
            archive.file(&format!("{LIBRARIES}/{name}"), 0o755, &bytes)?;
            found = elf::needed(&bytes)?;
            at += 1;
        }
        Ok(format!("/{PROGRAM}"))
    }
}

/// The files of Debian's package and of those that it depends on, by name.
struct Package(BTreeMap<String, PathBuf>);

impl Package {
    fn of(arch: Arch) -> Result<Package> {
        let variable = format!("QUIRE_STRESS_NG_{}", arch.name().to_uppercase());
        let root = debian::root(arch, "stress-ng", &["stress-ng"]).with_context(|| {
            format!("no static stress-ng for {arch} on this host ({variable} may name one)")
        })?;
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
