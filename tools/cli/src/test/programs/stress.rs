//! stress-ng: a static one of the host's, or Debian's package with its libraries.
use super::super::job::Job;
use super::foreign::elf;
use super::{find_static, skipped};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tools::host::arch::Arch;
use tools::host::debian;
use tools::host::outcome::Outcome;
use tools::host::workspace::Temporary;
use tools::machine::build::Built;
use tools::machine::console;
use tools::machine::guest::End;
use tools::machine::initramfs::{Archive, default_archive};
use tools::machine::qemu::Machine;

/// Some do not look at the clock before they have done a whole round, and print nothing meanwhile.
const LIMIT: Duration = Duration::from_secs(900);
/// Where the libraries are in the guest: glibc's loader looks there.
const LIBRARIES: &str = "lib";
const PROGRAM: &str = "bin/stress-ng";

/// Those that change memory, make processes and wake threads, and those that wait for sockets of
/// AF_UNIX. (The stressor sock asks for TCP in every family, so Linux refuses it, too.) Each with
/// so many of what it counts as operations, by all instances: what one CPU does in about a second.
const STRESSORS: [(&str, u32); 9] = [
    ("mmap", 20),
    ("fork", 1200),
    ("vm", 10_000),
    ("futex", 240),
    ("switch", 100_000),
    ("epoll", 5000),
    ("sockfd", 20_000),
    ("sockpair", 28_000),
    ("userfaultfd", 10_000),
];

/// It waits for the signal that says that its time is over, even when its operations are done.
const BY_TIME: &str = "sem";

/// What together wants half as much memory again as [`SMALL`] has, and is swapped.
const SWAPPED: &str = " --vm 2 --vm-bytes 160m --vm-ops 3000 --mmap 1 --mmap-bytes 40m \
    --mmap-ops 2 --bigheap 1 --bigheap-growth 1m --bigheap-ops 60 --brk 1 --brk-ops 10000 \
    --fork 1 --fork-ops 200 --userfaultfd 1 --userfaultfd-bytes 40m --userfaultfd-ops 10000 \
    --madvise 1 --madvise-ops 20 --memthrash 1 --memthrash-ops 200 -t 30";
/// The memory of a machine for them, and what it may keep compressed.
const SMALL: (&str, &str) = ("256M", "zram=512M ");

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
    let shorter = STRESSORS.iter().map(|(one, _)| *one).chain([BY_TIME]);
    for one in shorter.chain(MORE) {
        match check(machine, built, &format!(" --{one} 4 -t 20"))? {
            Outcome::Passed => println!("      | stress-ng {one}: passed"),
            Outcome::Failed(why) => return Ok(Outcome::Failed(format!("{one}: {why}"))),
            skipped => return Ok(skipped),
        }
    }
    Ok(Outcome::Passed)
}

/// Runs all at once that end by themselves, and alone that which does not; with several CPUs each
/// alone, too.
pub fn run(job: &Job<'_>, name: &dyn Fn(&str) -> String, built: &Built, machine: &Machine) {
    let words = |(one, ops): &(&str, u32), part| format!(" --{one} 4 --{one}-ops {}", ops / part);
    for one in STRESSORS.iter().filter(|_| machine.smp > 1) {
        job.case(name(&format!("stress_ng_{}", one.0)), || {
            check(machine, built, &words(one, 1))
        });
    }
    job.case(name(&format!("stress_ng_{BY_TIME}")), || {
        check(machine, built, &format!(" --{BY_TIME} 4 -t 2"))
    });
    if machine.smp > 1 {
        job.case(name("stress_ng_swapped"), || {
            let mut small = machine.clone();
            (small.mem, small.command_line) = (SMALL.0.to_owned(), SMALL.1.to_owned());
            check(&small, built, SWAPPED)
        });
    }
    job.case(name("stress_ng"), || {
        // Each takes four times as long beside the others.
        let all: String = STRESSORS.iter().map(|one| words(one, 4)).collect();
        check(machine, built, &all)
    });
}

/// Instances of stressors find nothing wrong, and none is killed; `words`: which, and how long.
/// What the machine's command line has precedes them.
fn check(machine: &Machine, built: &Built, words: &str) -> Result<Outcome> {
    let mut machine = machine.clone();
    let mut archive = default_archive(&built.programs)?;
    let origin = match Origin::find(machine.arch) {
        Ok(origin) => origin,
        Err(why) => return skipped(&format!("{why:#}")),
    };
    let command = origin.add(&mut archive)?;
    let file = Temporary::file("cpio", &archive.finish()?)?;
    machine.initramfs = Some(file.path().to_owned());
    machine.command_line = format!(
        "{}quiet -- {command} --vm-bytes 32m --mmap-bytes 16m --epoll-domain unix \
         --temp-path /tmp --verify{words}",
        machine.command_line
    );
    let boot = console::boot_patiently(&machine, LIMIT)?;
    let killed = words == SWAPPED && boot.text.contains("Out of memory");
    let failed = boot.text.contains("stress-ng: fail") || killed;
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
