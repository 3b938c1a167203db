//! Linux's own tests of memory management and of ptrace, as source: out of the distribution's
//! packages, and never a part of this repository.
use super::apt::Apt;
use super::choose::newest_source;
use super::folder;
use crate::host::progress;
use crate::host::workspace::Temporary;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The tests and what they are built with.
#[derive(Clone, Debug)]
pub struct Tests {
    /// A part of Linux's source, with the headers for programs in `usr/include`.
    pub folder: PathBuf,
    /// The package that they come from, and its version.
    pub origin: String,
}

impl Tests {
    /// Where the makefile of one of [`FOLDERS`] is.
    pub fn makefile(&self, of: &str) -> PathBuf {
        self.folder.join("tools/testing/selftests").join(of)
    }
}

/// The folders of those that are run.
pub const FOLDERS: [&str; 2] = ["mm", "ptrace"];

/// As apt-cache(8) searches for them.
const SOURCES: &str = "^linux-source-[0-9.]+$";
/// The headers for programs.
const HEADERS: &str = "linux-libc-dev";

/// What of the source the tests need.
const PARTS: [&str; 7] = [
    "tools/testing/selftests",
    "tools/include",
    "tools/arch",
    "mm/gup_test.h",
    "lib/test_hmm_uapi.h",
    "include/vdso",
    "scripts/subarch.include",
];

/// The tests of the newest source that the distribution has. What was downloaded once is taken,
/// unless `renew`.
pub fn tests(renew: bool) -> Result<Tests> {
    let kept = folder().join("tests");
    match fs::read_to_string(kept.join(ORIGIN)) {
        Ok(origin) if !renew => Ok(Tests {
            folder: kept,
            origin,
        }),
        _ => download(&kept).context("Linux's tests cannot be had"),
    }
}

/// A file that says where a folder's files are from; it is the last that is written.
pub const ORIGIN: &str = "origin";

fn download(kept: &Path) -> Result<Tests> {
    let apt = Apt::new(&folder().join("apt"))?;
    let found = apt.search("its source", SOURCES)?;
    let (name, version) = newest_source(&found)
        .context("the distribution's servers list no package linux-source-*")?;
    let scratch = Temporary::folder("source")?;
    let tree = apt.unpack(&[name, HEADERS], scratch.path())?;
    if kept.exists() {
        fs::remove_dir_all(kept)?;
    }
    fs::create_dir_all(kept)?;
    fs::rename(tree.join("usr/include"), scratch.path().join("include"))?;
    let mut parts = Command::new("tar");
    parts
        .arg("-xJf")
        .arg(tree.join(format!("usr/src/{name}.tar.xz")));
    parts.arg("-C").arg(kept).arg("--strip-components=1");
    parts.args(PARTS.map(|part| format!("{name}/{part}")));
    progress::step("unpacking Linux's tests", &mut parts)?;
    copy(&scratch.path().join("include"), &kept.join("usr"))?;
    // Where the headers of some versions lead.
    if tree.join("usr/lib/linux").exists() {
        copy(&tree.join("usr/lib"), &kept.join("usr"))?;
    }
    let origin = format!("{name} {version}");
    fs::write(kept.join(ORIGIN), &origin)?;
    Ok(Tests {
        folder: kept.to_owned(),
        origin,
    })
}

/// Copies a folder with its symbolic links into another one.
fn copy(from: &Path, into: &Path) -> Result<()> {
    fs::create_dir_all(into)?;
    let mut copy = Command::new("cp");
    copy.arg("-a").arg(from).arg(into);
    progress::step("copying headers", &mut copy)?;
    Ok(())
}
