//! `--add FILE[=PATH]`: a file of the user's beside the built-in programs.
use crate::host::errors::UsageError;
use crate::host::workspace;
use crate::machine::initramfs::Archive;
use anyhow::{Context, Result};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The folder for files that are given without a PATH.
const FOLDER: &str = "bin";

/// A file to be added, checked before anything is built.
#[derive(Debug, PartialEq, Eq)]
pub struct Added {
    /// Where it is on the host.
    pub file: PathBuf,
    /// In the archive, without a slash at its beginning.
    pub place: String,
    /// Permissions, the executable bits among them.
    pub mode: u32,
    /// Its size in bytes.
    pub size: u64,
}

impl Added {
    /// Reads `FILE` or `FILE=PATH`. A `=` in the name of an existing file is part of that name.
    pub fn parse(text: &OsStr) -> Result<Added, UsageError> {
        let whole = workspace::user_path(Path::new(text));
        let at = text.as_bytes().iter().rposition(|byte| *byte == b'=');
        let (file, path) = match at.filter(|_| !whole.exists()) {
            Some(at) => {
                let (file, path) = (&text.as_bytes()[..at], &text.as_bytes()[at + 1..]);
                let file = workspace::user_path(Path::new(OsStr::from_bytes(file)));
                (file, Some(OsStr::from_bytes(path)))
            }
            None => (whole, None),
        };
        let wrong = |why: String| UsageError(format!("--add {}: {why}", text.display()));
        let about = fs::metadata(&file)
            .and_then(|about| fs::File::open(&file).map(|_| about))
            .map_err(|error| wrong(format!("{}: {error}", file.display())))?;
        if !about.is_file() {
            return Err(wrong(format!("{} is not a file", file.display())));
        }
        let name = file.file_name().unwrap_or_default();
        Ok(Added {
            place: place(name, path).map_err(wrong)?,
            mode: about.permissions().mode() & 0o777,
            size: about.len(),
            file,
        })
    }
}

/// Where a file called `name` goes: `path` below the root, a folder when it ends with a slash.
fn place(name: &OsStr, path: Option<&OsStr>) -> Result<String, String> {
    let text = |word: &OsStr| {
        let text = word.to_str().map(str::to_owned);
        text.ok_or_else(|| format!("{} is not UTF-8", word.display()))
    };
    let path = match path {
        None => return Ok(format!("{FOLDER}/{}", text(name)?)),
        Some(path) => text(path)?,
    };
    let place = match path.strip_suffix('/') {
        Some(folder) => format!("{folder}/{}", text(name)?),
        None => path.clone(),
    };
    let place = place.trim_start_matches('/');
    let odd = |part: &str| part.is_empty() || part == "." || part == "..";
    if path.is_empty() || place.split('/').any(odd) {
        return Err(format!("{path:?} is not a path for a file"));
    }
    Ok(place.to_owned())
}

/// The default archive with these files in it: one at a built-in program's path replaces it.
pub fn archive(mut archive: Archive, added: &[Added]) -> Result<Vec<u8>> {
    for one in added {
        let content =
            fs::read(&one.file).with_context(|| format!("cannot read {}", one.file.display()))?;
        for (at, _) in one.place.match_indices('/') {
            archive.folder_if_absent(&one.place[..at])?;
        }
        archive.replace(&one.place, one.mode, &content)?;
    }
    archive.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::workspace::Temporary;

    #[test]
    fn places() {
        let of = |path: Option<&str>| place(OsStr::new("prog"), path.map(OsStr::new));
        assert_eq!(of(None).unwrap(), "bin/prog");
        assert_eq!(of(Some("/etc/motd")).unwrap(), "etc/motd");
        assert_eq!(of(Some("sbin/")).unwrap(), "sbin/prog");
        assert_eq!(of(Some("/")).unwrap(), "prog");
        for bad in ["", "/a/../b", "a//b", "./a", ".."] {
            assert!(of(Some(bad)).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn files_are_checked_before_anything_is_built() {
        let folder = Temporary::folder("added").unwrap();
        let path = |name: &str| folder.path().join(name);
        for (name, mode) in [("plain", 0o644), ("run", 0o755), ("a=b", 0o600)] {
            fs::write(path(name), name).unwrap();
            fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        let parse = |text: &str| Added::parse(path(text).as_os_str());
        let of = |text: &str| parse(text).map(|one| (one.place, one.mode)).unwrap();
        assert_eq!(of("run"), ("bin/run".to_owned(), 0o755));
        assert_eq!(of("plain=/etc/plain"), ("etc/plain".to_owned(), 0o644));
        assert_eq!(of("a=b"), ("bin/a=b".to_owned(), 0o600));
        assert_eq!(of("a=b=c/d"), ("c/d".to_owned(), 0o600));
        assert!(parse("none").unwrap_err().0.contains("No such file"));
        assert!(parse("").unwrap_err().0.contains("is not a file"));
        assert!(parse("run=a/..").unwrap_err().0.contains("is not a path"));
    }
}
