//! `proof/go/runtime.go`: what Go's runtime asks of a kernel. It prints the same on the host's
//! Linux, if that runs it.
use crate::test::programs::skipped;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tools::host::arch::Arch;
use tools::host::debian;
use tools::host::managers::starts;
use tools::host::outcome::Outcome;
use tools::host::workspace::{self, Temporary};
use tools::machine::console;
use tools::machine::guest::End;
use tools::machine::initramfs::Archive;
use tools::machine::qemu::Machine;

/// Emulated, its many goroutines take some time.
const LIMIT: Duration = Duration::from_secs(300);
/// The program's exit status when all is well.
const ENDS: u8 = 7;
const PRINTS: &str = "hello
slept true true
chain 10000
answered 5000
deadline true
nodes 393132 collected true
signal user defined signal 1
child true
";

/// Boots it as /init.
pub fn check(mut machine: Machine) -> Result<Outcome> {
    let go = match compiler() {
        Ok(go) => go,
        Err(why) => return skipped(&format!("{why:#}")),
    };
    let program = compile(&go, machine.arch)?;
    let mut archive = Archive::default();
    for folder in ["dev", "proc", "tmp"] {
        archive.directory(folder)?;
    }
    archive.file("init", 0o755, &program)?;
    let file = Temporary::file("cpio", &archive.finish()?)?;
    machine.initramfs = Some(file.path().to_owned());
    machine.command_line = "quiet".to_owned();
    let boot = console::boot(&machine, LIMIT)?;
    if boot.text.contains(PRINTS) && boot.end == End::Status(ENDS) {
        return Ok(Outcome::Passed);
    }
    Ok(Outcome::Failed(format!(
        "ended with {:?}, not {ENDS}; it should print:\n{PRINTS}\nit prints:\n{}",
        boot.end, boot.text
    )))
}

/// The host's own, else Debian's for the host.
pub fn compiler() -> Result<PathBuf> {
    if starts("go") {
        return Ok("go".into());
    }
    let mut known = Arch::ALL.into_iter();
    let host = known.find(|it| it.name() == std::env::consts::ARCH);
    let host = host.context("no Go, and none for this host")?;
    let root = debian::root(host, "go", &["golang-go"])?;
    let libraries = fs::read_dir(root.join("usr/lib"))?;
    let roots = libraries.filter_map(|it| Some(it.ok()?.path().join("bin/go")));
    roots
        .filter(|path| path.is_file())
        .max()
        .context("the package golang-go has no go")
}

fn compile(go: &Path, arch: Arch) -> Result<Vec<u8>> {
    let folder = Temporary::folder("go")?;
    let program = folder.path().join("runtime");
    let goarch = match arch {
        Arch::X86_64 => "amd64",
        Arch::Aarch64 => "arm64",
    };
    let mut command = Command::new(go);
    command
        .args(["build", "-o"])
        .arg(&program)
        .arg(workspace::root().join("proof/go/runtime.go"))
        // Static, by the release that is there.
        .envs([("CGO_ENABLED", "0"), ("GOTOOLCHAIN", "local")])
        .envs([("GOOS", "linux"), ("GOARCH", goarch)])
        .env("GOCACHE", workspace::target().join("go-cache"));
    let output = command.output().context("cannot start go")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "go: {errors}");
    Ok(fs::read(program)?)
}
