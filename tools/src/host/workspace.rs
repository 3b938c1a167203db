//! Paths of the workspace.
use crate::host::arch::Arch;
use crate::host::errors::UsageError;
use anyhow::{Context, Result};
use std::collections::hash_map::RandomState;
use std::env;
use std::fs::{self, File};
use std::hash::BuildHasher;
use std::path::{Path, PathBuf};

/// The checkout that this program was built from.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("tools/ lies in the workspace")
}

/// cargo's output folder.
pub fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |dir| root().join(dir))
}

/// The folder of one architecture's images.
pub fn images(arch: Arch) -> PathBuf {
    target().join("images").join(arch.name())
}

/// Has `write` make a file, and puts it at `path` only when that succeeds: an older file is
/// replaced by a complete one only.
pub fn replace(path: &Path, write: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(format!(".new-{}", std::process::id()));
    let new = PathBuf::from(new);
    let written = write(&new).and_then(|()| {
        fs::rename(&new, path).with_context(|| format!("cannot write {}", path.display()))
    });
    if written.is_err() {
        // It may not even have begun.
        let _ = fs::remove_file(&new);
    }
    written
}

/// A path as the user wrote it: relative to the working directory of `run.sh`.
pub fn user_path(path: &Path) -> PathBuf {
    env::var_os("QUIRE_CWD").map_or_else(|| path.to_owned(), |cwd| Path::new(&cwd).join(path))
}

/// The file behind `option` that a command will write, if there is to be one, as the user named
/// it; an error now when that will not be possible, not after hours of work. Its contents are kept
/// until then.
pub fn writable(option: &str, path: Option<&Path>) -> Result<Option<PathBuf>, UsageError> {
    let Some(path) = path.map(user_path) else {
        return Ok(None);
    };
    let mut options = fs::OpenOptions::new();
    match options.append(true).create(true).open(&path) {
        Ok(_) => Ok(Some(path)),
        Err(error) => Err(UsageError(format!("{option} {}: {error}", path.display()))),
    }
}

/// Waits until no thread and no other process keeps the lock that is this file, which is made where
/// it is not there; kept for as long as the result.
pub fn lock(path: &Path) -> Result<File> {
    let about = || format!("cannot lock {}", path.display());
    let folder = path.parent().context("a lock is in a folder")?;
    fs::create_dir_all(folder).with_context(about)?;
    let file = File::create(path).with_context(about)?;
    file.lock().with_context(about)?;
    Ok(file)
}

/// A file or folder for one run, which goes with this value.
#[derive(Debug)]
pub struct Temporary(PathBuf);

impl Temporary {
    /// An unused name that nobody can guess; nothing is created.
    pub fn name(kind: &str) -> Self {
        Temporary::within(&env::temp_dir(), kind)
    }

    /// The same in a folder.
    pub fn within(folder: &Path, kind: &str) -> Self {
        // The standard library's source of randomness: its keys are different each time.
        let number = RandomState::new().hash_one(kind);
        let name = format!("quire-{}-{number:016x}.{kind}", std::process::id());
        Temporary(folder.join(name))
    }

    /// An unused name where files are memory, if there is such a folder.
    pub fn name_in_memory(kind: &str) -> Self {
        let name = Temporary::name(kind);
        let folder = Path::new("/dev/shm");
        match name.0.file_name().filter(|_| folder.is_dir()) {
            Some(file) => Temporary(folder.join(file)),
            None => name,
        }
    }

    /// A new file with this content.
    pub fn file(kind: &str, content: &[u8]) -> Result<Self> {
        let new = Temporary::name(kind);
        fs::write(&new.0, content).with_context(|| format!("cannot write {}", new.0.display()))?;
        Ok(new)
    }

    /// An empty folder.
    pub fn folder(kind: &str) -> Result<Self> {
        let new = Temporary::name(kind);
        fs::create_dir(&new.0).with_context(|| format!("cannot make {}", new.0.display()))?;
        Ok(new)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // A leftover in the folder for temporary files does no harm.
        let _ = if self.0.is_dir() {
            fs::remove_dir_all(&self.0)
        } else {
            fs::remove_file(&self.0)
        };
    }
}
