//! Builds the tests for one machine: static programs, by the tests' own makefile.
use super::list;
use super::suite::{Program, Suite};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use tools::host::arch::Arch;
use tools::host::compilers;
use tools::host::debian;
use tools::host::progress;
use tools::host::workspace;
use tools::machine::linux::{FOLDERS, ORIGIN, Tests};

/// Libraries that some of the tests want, as Debian's packages; of each, the headers and the
/// archive.
const LIBRARIES: [(&str, &[&str], &str); 2] = [
    ("libcap-dev", &["sys/capability.h"], "libcap.a"),
    (
        "libnuma-dev",
        &["numa.h", "numaif.h", "numacompat1.h"],
        "libnuma.a",
    ),
];

/// Builds the tests, unless they are there. Those that cannot be built are said and left out.
pub fn build(tests: &Tests, arch: Arch) -> Result<Suite> {
    let folder = workspace::target().join("compat").join(arch.name());
    let mark = folder.join(ORIGIN);
    let origin = format!("{}: {FOLDERS:?}", tests.origin);
    if fs::read_to_string(&mark).is_ok_and(|built| built == origin) {
        return programs(arch, folder);
    }
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let out = folder.join("programs");
    fs::create_dir_all(&out)?;
    let libraries = folder.join("libraries");
    if let Err(error) = self::libraries(arch, &libraries) {
        eprintln!("run.sh: tests that need libcap or libnuma are left out: {error:#}");
    }
    let made = progress::during(&format!("building Linux's tests for {arch}"), || {
        let made = FOLDERS.map(|of| {
            let mut make = make(tests, of, arch, &out, &libraries);
            make.output().context("cannot start make")
        });
        made.into_iter().collect::<Result<Vec<_>>>()
    });
    let errors: Vec<u8> = made?.into_iter().flat_map(|made| made.stderr).collect();
    let errors = String::from_utf8_lossy(&errors);
    let suite = programs(arch, folder)?;
    ensure!(!suite.programs.is_empty(), "none could be built:\n{errors}");
    for line in errors.lines().filter(|line| line.contains("error: ")) {
        eprintln!("run.sh: {arch}: {line}");
    }
    fs::write(mark, origin)?;
    Ok(suite)
}

fn make(tests: &Tests, of: &str, arch: Arch, out: &Path, libraries: &Path) -> Command {
    let (_, compiler) = compilers::of(arch)[0];
    let (name, triple) = match arch {
        Arch::X86_64 => ("x86_64", "x86_64-linux-gnu"),
        Arch::Aarch64 => ("arm64", "aarch64-linux-gnu"),
    };
    let include = tests.folder.join("usr/include");
    let cpus = thread::available_parallelism().map_or(1, NonZero::get);
    let mut make = Command::new("make");
    // -B: the configuration of another machine may be there.
    make.args(["-B", "-k", &format!("-j{cpus}"), "-C"]);
    make.arg(tests.makefile(of));
    let paths = [
        ("OUTPUT", out),
        ("top_srcdir", &tests.folder),
        ("ARCH", Path::new(name)),
        ("CC", Path::new(compiler)),
    ];
    make.args(paths.map(|(variable, value)| format!("{variable}={}", value.display())));
    let (include, libraries) = (include.display(), libraries.display());
    make.arg(format!(
        "KHDR_INCLUDES=-isystem {include}/{triple} -isystem {include}"
    ));
    make.arg(format!(
        "USERCFLAGS=-static -w -isystem {libraries} -L{libraries}"
    ));
    make
}

/// Puts the libraries' files into one folder.
fn libraries(arch: Arch, folder: &Path) -> Result<()> {
    let packages = LIBRARIES.map(|(package, ..)| package);
    let root = debian::root(arch, "compat-libraries", &packages)?;
    fs::create_dir_all(folder.join("sys"))?;
    let triple = format!("{arch}-linux-gnu");
    for (_, headers, archive) in LIBRARIES {
        for header in headers {
            let from = root.join("usr/include").join(header);
            fs::copy(&from, folder.join(header)).with_context(|| from.display().to_string())?;
        }
        let from = root.join("usr/lib").join(&triple).join(archive);
        fs::copy(&from, folder.join(archive)).with_context(|| from.display().to_string())?;
    }
    Ok(())
}

/// The programs in a folder that was built.
fn programs(arch: Arch, folder: PathBuf) -> Result<Suite> {
    let folder = folder.join("programs");
    let mut programs = Vec::new();
    for entry in fs::read_dir(&folder)? {
        let entry = entry?;
        if fs::read(entry.path()).is_ok_and(|bytes| bytes.starts_with(b"\x7fELF"))
            && let Ok(name) = entry.file_name().into_string()
        {
            programs.push(Program {
                lines: list::line(&name),
                name,
                files: vec![entry.path()],
            });
        }
    }
    Ok(Suite { arch, programs })
}
