//! Limine's binaries: found on this machine, or downloaded at one version and checked.
use crate::host::workspace;
use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};
use std::env;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Once;

/// The version that is downloaded and tested with.
pub const VERSION: &str = "8.2.0";
/// Limine's own releases, file by file.
const SOURCE: &str = "https://raw.githubusercontent.com/limine-bootloader/limine";

/// The files for a disk, with their SHA-256.
const FILES: [(&str, &str); 5] = [
    (
        "limine-bios.sys",
        "8382e36ff9d51e52e9160842f834a346028edf9e0319b1c728d290e3044a44a7",
    ),
    (
        "limine-bios-cd.bin",
        "3b889bf946b1f248c93efa90fd1718aad79f867e8184f9167a0b9875a0c41191",
    ),
    (
        "limine-uefi-cd.bin",
        "1801a9034420fb1b17bdcdedee11f29c946169abac103b161e7bfd01d98caf29",
    ),
    (
        "BOOTX64.EFI",
        "7bf99f9ffdbce1443bd7f148f01bee47d4a587f58fb170e42dab29790e6d831a",
    ),
    (
        "BOOTAA64.EFI",
        "6fced3f6123d9dcd5e6762d3e5cdd5cd00a9e5f9d39f60b56d1794ff811d4bef",
    ),
];
/// Source of the program that makes a disk start by BIOS, too.
const INSTALLER: [(&str, &str); 2] = [
    (
        "limine.c",
        "201ac3e7f47b34305f2208066ebb204118a7debf90d6fd7d28f4799905ca7f70",
    ),
    (
        "limine-bios-hdd.h",
        "95929ac04f603483f72781508f35f07854e1933188bc7558d89c0e7710c5749b",
    ),
];

/// The folders used by distributions and `make install`.
const FOLDERS: [&str; 4] = [
    "/usr/share/limine",
    "/usr/local/share/limine",
    "/opt/homebrew/share/limine",
    "/home/linuxbrew/.linuxbrew/share/limine",
];

/// The names of the files that go on a disk.
pub fn names() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(name, _)| *name)
}

/// The folder that `LIMINE_DIR` names.
fn named() -> Option<PathBuf> {
    let named = env::var_os("LIMINE_DIR").filter(|dir| !dir.is_empty())?;
    Some(workspace::user_path(Path::new(&named)))
}

/// A folder with all of them, without the network: `LIMINE_DIR`, an installed one, an earlier
/// download.
pub fn find() -> Option<PathBuf> {
    let complete = |folder: &PathBuf| names().all(|name| folder.join(name).is_file());
    let installed = FOLDERS.iter().map(PathBuf::from);
    named()
        .into_iter()
        .chain(installed)
        .chain([downloads()])
        .find(complete)
}

/// [`find`], but a `LIMINE_DIR` that lacks something is an error.
pub fn folder_here() -> Result<Option<PathBuf>> {
    if let Some(named) = named() {
        complete(&named)?;
    }
    Ok(find())
}

/// Whether a folder that a user named has everything.
fn complete(named: &Path) -> Result<()> {
    let missing: Vec<&str> = names().filter(|name| !named.join(name).is_file()).collect();
    ensure!(
        missing.is_empty(),
        "LIMINE_DIR={} has no {}",
        named.display(),
        missing.join(", ")
    );
    Ok(())
}

/// Whether a folder has the files of [`VERSION`].
pub fn is_pinned(folder: &Path) -> bool {
    FILES
        .iter()
        .all(|(name, sum)| check(&folder.join(name), sum).is_ok())
}

/// The message about a folder with other files.
pub fn not_pinned(folder: &Path) -> String {
    format!(
        "Limine in {}, not the {VERSION} that everything is tried with",
        folder.display()
    )
}

/// A folder with all of them; downloads them when there is none.
pub fn folder() -> Result<PathBuf> {
    match folder_here()? {
        Some(folder) if folder != downloads() => {
            static ONCE: Once = Once::new();
            if !is_pinned(&folder) {
                ONCE.call_once(|| eprintln!("run.sh: {}", not_pinned(&folder)));
            }
            return Ok(folder);
        }
        _ => {}
    }
    download(&FILES)
}

/// The program `limine`, for `limine bios-install`: beside the binaries, on PATH, or compiled from
/// Limine's source.
pub fn installer() -> Result<PathBuf> {
    let beside = find().map(|folder| folder.join("limine"));
    let mut known = beside
        .into_iter()
        .chain([PathBuf::from("limine"), downloads().join("limine")]);
    if let Some(program) = known.find(|program| runs(program)) {
        return Ok(program);
    }
    let has_source = |folder: &PathBuf| {
        INSTALLER
            .iter()
            .all(|(name, _)| folder.join(name).is_file())
    };
    let source = match find().filter(has_source) {
        Some(folder) => folder,
        None => download(&INSTALLER)?,
    };
    let program = downloads().join("limine");
    fs::create_dir_all(downloads())?;
    let mut compiler = Command::new("cc");
    compiler
        .args(["-O2", "-std=c99", "-o"])
        .arg(&program)
        .arg(source.join("limine.c"));
    let status = compiler
        .status()
        .context("cannot start cc, the C compiler")?;
    ensure!(status.success(), "cc cannot compile limine.c");
    Ok(program)
}

/// Puts Limine into the image's first sectors, so that BIOS starts it from a stick, too.
pub fn start_by_bios(path: &Path) -> Result<()> {
    let program = installer().context("no program limine for \"limine bios-install\"")?;
    let mut command = Command::new(program);
    command
        .arg("bios-install")
        .arg(path)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    ensure!(command.status()?.success(), "limine bios-install failed");
    Ok(())
}

fn runs(program: &Path) -> bool {
    let mut command = Command::new(program);
    command
        .arg("version")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn downloads() -> PathBuf {
    workspace::target().join(format!("limine-{VERSION}"))
}

/// Gets files, unless they are there already and sound, and checks them; returns their folder.
fn download(files: &[(&str, &str)]) -> Result<PathBuf> {
    let folder = downloads();
    for (name, sum) in files {
        download_one(&folder, name, sum).with_context(|| help(&folder, files))?;
    }
    Ok(folder)
}

fn download_one(folder: &Path, name: &str, sum: &str) -> Result<()> {
    let path = folder.join(name);
    if path.is_file() && check(&path, sum).is_ok() {
        return Ok(());
    }
    fs::create_dir_all(folder)?;
    let url = format!("{SOURCE}/v{VERSION}-binary/{name}");
    eprintln!("run.sh: downloading {url}");
    workspace::replace(&path, |new| {
        fetch(&url, new)?;
        check(new, sum)
    })
}

/// The advice without a network.
fn help(folder: &Path, files: &[(&str, &str)]) -> String {
    let names: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
    format!(
        "Limine is missing: install your distribution's package limine, or put {} of Limine {VERSION} \
         (tag v{VERSION}-binary of https://github.com/limine-bootloader/limine) into {} or beside the others in a folder \
         that LIMINE_DIR names",
        names.join(", "),
        folder.display()
    )
}

/// By curl, or by wget.
fn fetch(url: &str, to: &Path) -> Result<()> {
    let mut curl = Command::new("curl");
    curl.args([
        "--fail",
        "--silent",
        "--show-error",
        "--location",
        "--max-time",
        "60",
        "--output",
    ]);
    let mut wget = Command::new("wget");
    wget.args(["--quiet", "--timeout=60", "--tries=1", "-O"]);
    for (name, mut command) in [("curl", curl), ("wget", wget)] {
        match command.arg(to).arg(url).status() {
            Ok(status) if status.success() => return Ok(()),
            Ok(_) => bail!("{name} cannot get {url}"),
            Err(_) => {}
        }
    }
    bail!("neither curl nor wget is here to get {url}")
}

/// Whether a file has the committed SHA-256.
fn check(path: &Path, sum: &str) -> Result<()> {
    let content = fs::read(path)?;
    let mut found = String::new();
    for byte in Sha256::digest(&content) {
        write!(found, "{byte:02x}")?;
    }
    ensure!(
        found == sum,
        "{} has the SHA-256 {found}, not {sum}",
        path.display()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums() {
        let path = env::temp_dir().join(format!("quire-sum-{}", std::process::id()));
        fs::write(&path, "abc").unwrap();
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        check(&path, abc).unwrap();
        let other = check(&path, &abc.replace('b', "c")).unwrap_err();
        assert!(other.to_string().contains(abc));
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_folder_that_lacks_files() {
        let folder = workspace::Temporary::folder("limine").unwrap();
        for (name, _) in FILES.iter().skip(2) {
            fs::write(folder.path().join(name), "not Limine").unwrap();
        }
        let error = complete(folder.path()).unwrap_err().to_string();
        assert!(
            error.ends_with("has no limine-bios.sys, limine-bios-cd.bin"),
            "{error}"
        );
        for (name, _) in FILES {
            fs::write(folder.path().join(name), "not Limine").unwrap();
        }
        assert!(complete(folder.path()).is_ok() && !is_pinned(folder.path()));
    }

    #[test]
    fn help_names_everything() {
        let text = help(Path::new("/t"), &FILES);
        assert!(names().all(|name| text.contains(name)) && text.contains("LIMINE_DIR"));
        let text = help(Path::new("/t"), &INSTALLER);
        assert!(text.contains("put limine.c, limine-bios-hdd.h of") && !text.contains(".EFI"));
    }
}
