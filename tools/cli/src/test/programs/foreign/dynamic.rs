//! `proof/c/dynamic.c` and its library, and what the kernel says to interpreters that it cannot
//! use.
use super::elf;
use crate::test::programs::{LIMIT, skipped};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tools::host::arch::Arch;
use tools::host::managers::starts;
use tools::host::outcome::Outcome;
use tools::host::workspace::{self, Temporary};
use tools::machine::console::{self, Boot};
use tools::machine::guest::End;
use tools::machine::initramfs::Archive;
use tools::machine::qemu::Machine;
use tools::machine::tinyelf;

/// How programs are linked.
pub const KINDS: [(&str, &[&str]); 2] = [
    ("pie", &["-fPIE", "-pie"]),
    ("no_pie", &["-fno-pie", "-no-pie"]),
];
/// The program's exit status when all is well.
const ENDS: u8 = 7;
/// A C library's search path begins with it.
const LIBRARIES: &str = "lib";

/// A program with its libraries, in a folder of its own.
struct Compiled<'a> {
    compiler: &'a str,
    folder: Temporary,
}

impl<'a> Compiled<'a> {
    fn new(compiler: &'a str, flags: &[&str]) -> Result<Self> {
        let folder = Temporary::folder("dynamic")?;
        let one = Compiled { compiler, folder };
        let linked = one.path("liblibrary.so");
        one.compile(&["-shared", "-fPIC"], "library.c", &linked)?;
        fs::copy(&linked, one.path("libopened.so"))?;
        let search = format!("-L{}", one.folder.path().display());
        let libraries = [search.as_str(), "-llibrary", "-ldl", "-pthread"];
        one.compile(
            &[flags, &libraries].concat(),
            "dynamic.c",
            &one.path("dynamic"),
        )?;
        Ok(one)
    }

    fn compile(&self, flags: &[&str], source: &str, into: &Path) -> Result<()> {
        let source = workspace::root().join("proof/c").join(source);
        // Libraries count for what stands before them.
        let output = Command::new(self.compiler)
            .args(["-O1", "-Wall", "-Werror"])
            .arg(source)
            .args(flags)
            .arg("-o")
            .arg(into)
            .output()
            .with_context(|| format!("cannot start {}", self.compiler))?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}: {errors}", self.compiler);
        Ok(())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn program(&self) -> Result<Vec<u8>> {
        Ok(fs::read(self.path("dynamic"))?)
    }

    /// A library of the compiler's, or of this folder.
    fn library(&self, name: &str) -> Result<Vec<u8>> {
        let own = self.path(name);
        let path = match own.exists() {
            true => own,
            false => {
                let word = format!("-print-file-name={name}");
                let output = Command::new(self.compiler).arg(word).output()?;
                PathBuf::from(String::from_utf8(output.stdout)?.trim())
            }
        };
        fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
    }

    /// An archive with the program as /init, without the libraries in `without`, and with
    /// `interpreter` as its interpreter.
    fn archive(&self, without: &[&str], interpreter: Option<&[u8]>) -> Result<Archive> {
        let program = self.program()?;
        let mut archive = Archive::default();
        for folder in ["dev", "proc", LIBRARIES] {
            archive.directory(folder)?;
        }
        archive.file("init", 0o755, &program)?;
        let place = elf::interpreter(&program)?;
        let place = place.trim_start_matches('/');
        for (at, _) in place.match_indices('/') {
            archive.folder_if_absent(&place[..at])?;
        }
        if let Some(bytes) = interpreter {
            archive.file(place, 0o755, bytes)?;
        }
        let mut names = elf::needed(&program)?;
        names.push("libopened.so".to_owned());
        for name in names
            .iter()
            .filter(|name| !without.contains(&name.as_str()))
        {
            let path = format!("{LIBRARIES}/{name}");
            if path != place {
                archive.file(&path, 0o755, &self.library(name)?)?;
            }
        }
        Ok(archive)
    }

    /// Its own interpreter.
    fn interpreter(&self) -> Result<Vec<u8>> {
        let path = elf::interpreter(&self.program()?)?;
        self.library(path.rsplit('/').next().unwrap_or_default())
    }

    fn boot(&self, mut machine: Machine, archive: Archive, words: &str) -> Result<Boot> {
        let file = Temporary::file("cpio", &archive.finish()?)?;
        machine.initramfs = Some(file.path().to_owned());
        machine.command_line = words.to_owned();
        console::boot(&machine, LIMIT)
    }

    /// What it prints on this host's Linux.
    fn on_linux(&self) -> Result<(String, Option<i32>)> {
        let output = Command::new(self.path("dynamic"))
            .env("LD_LIBRARY_PATH", self.folder.path())
            .output()?;
        Ok((String::from_utf8(output.stdout)?, output.status.code()))
    }
}

/// `proof/c/debugged.c`, compiled with these flags, for debuggers and sanitizers.
pub fn debugged(arch: Arch, flags: &[&str]) -> Result<Vec<u8>> {
    let one = Compiled {
        compiler: super::compiler_of_glibc(arch),
        folder: Temporary::folder("debugged")?,
    };
    let into = one.path("debugged");
    let flags = [&["-g", "-O0", "-pthread"], flags].concat();
    one.compile(&flags, "debugged.c", &into)?;
    Ok(fs::read(into)?)
}

/// The program as /init prints the same as on Linux, where it prints the same for every machine and
/// C library.
pub fn check(machine: Machine, compiler: &str, how: &str, flags: &[&str]) -> Result<Outcome> {
    if !starts(compiler) {
        return skipped(&format!("{compiler} is not installed"));
    }
    if std::env::consts::OS != "linux" || !starts("gcc") {
        return skipped("no Linux here that runs the program, to compare with");
    }
    let (expected, status) = Compiled::new("gcc", flags)?.on_linux()?;
    ensure!(
        status == Some(ENDS.into()) && expected.lines().count() == 6,
        "the program fails on Linux, with {status:?}:\n{expected}"
    );
    let ours = Compiled::new(compiler, flags)?;
    let archive = ours.archive(&[], Some(&ours.interpreter()?))?;
    let boot = ours.boot(machine, archive, "quiet")?;
    if boot.text.contains(&expected) && boot.end == End::Status(ENDS) {
        return Ok(Outcome::Passed);
    }
    Ok(Outcome::Failed(format!(
        "{how}: ended with {:?}; Linux prints, and ends with {ENDS}:\n{expected}\nQuire prints:\n{}",
        boot.end, boot.text
    )))
}

/// A library is missing: ld.so says which, and ends.
pub fn without_library(machine: Machine, compiler: &str) -> Result<Outcome> {
    if !starts(compiler) {
        return skipped(&format!("{compiler} is not installed"));
    }
    let ours = Compiled::new(compiler, KINDS[0].1)?;
    let archive = ours.archive(&["liblibrary.so"], Some(&ours.interpreter()?))?;
    let boot = ours.boot(machine, archive, "quiet")?;
    let words = "error while loading shared libraries: liblibrary.so: cannot open shared object";
    Ok(said(&boot, words, 127))
}

/// What can be wrong with an interpreter.
#[derive(Clone, Copy, Debug)]
pub enum Flaw {
    Missing,
    OtherMachine,
    Text,
    Short,
    Cut,
    Nested,
}

impl Flaw {
    pub const ALL: [Flaw; 6] = [
        Flaw::Missing,
        Flaw::OtherMachine,
        Flaw::Text,
        Flaw::Short,
        Flaw::Cut,
        Flaw::Nested,
    ];

    /// As a part of a test's name.
    pub fn name(self) -> &'static str {
        match self {
            Flaw::Missing => "missing",
            Flaw::OtherMachine => "of_other_machine",
            Flaw::Text => "text",
            Flaw::Short => "short",
            Flaw::Cut => "cut",
            Flaw::Nested => "dynamic",
        }
    }

    /// The interpreter.
    fn bytes(self, arch: Arch, good: &[u8]) -> Option<Vec<u8>> {
        Some(match self {
            Flaw::Missing => return None,
            Flaw::OtherMachine => tinyelf::exit(arch.other(), 0),
            Flaw::Text => vec![b'x'; 100],
            Flaw::Short => good[..60].to_vec(),
            Flaw::Cut => good[..good.len() / 2].to_vec(),
            // Linux, too, starts an interpreter without looking for its own.
            Flaw::Nested => tools::machine::inputs::dynamic_that_exits(arch, 9),
        })
    }

    /// What the console says, and how the machine ends.
    fn says(self) -> (&'static str, u8) {
        match self {
            Flaw::Missing => ("is missing: pack it and the program's libraries too", 101),
            Flaw::OtherMachine => ("cannot be used: it is a program for ", 101),
            Flaw::Text => ("cannot be used: it is not an ELF program", 101),
            Flaw::Short => ("cannot be read: EIO", 101),
            Flaw::Cut => ("cannot be used: it is truncated: segment ", 101),
            Flaw::Nested => ("", 9),
        }
    }
}

/// PID 1 with an interpreter that cannot be used.
pub fn bad_interpreter(machine: Machine, compiler: &str, flaw: Flaw) -> Result<Outcome> {
    if !starts(compiler) {
        return skipped(&format!("{compiler} is not installed"));
    }
    let ours = Compiled::new(compiler, KINDS[0].1)?;
    let interpreter = flaw.bytes(machine.arch, &ours.interpreter()?);
    let archive = ours.archive(&[], interpreter.as_deref())?;
    let boot = ours.boot(machine, archive, "quiet")?;
    let (words, status) = flaw.says();
    Ok(said(&boot, words, status))
}

fn said(boot: &Boot, words: &str, status: u8) -> Outcome {
    if boot.text.contains(words) && boot.end == End::Status(status) {
        return Outcome::Passed;
    }
    Outcome::Failed(format!(
        "not {words:?} and status {status}, but {:?}\n{}",
        boot.end, boot.text
    ))
}
