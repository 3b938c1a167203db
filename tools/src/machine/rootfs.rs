//! `--rootfs DIR|TAR`: a root file system of the user's as an initramfs.
use crate::host::errors::UsageError;
use crate::host::workspace;
use crate::machine::initramfs::{Archive, Entry};
use anyhow::{Context, Result, bail, ensure};
use cpio::newc::ModeFileType;
use flate2::read::MultiGzDecoder;
use std::collections::HashMap;
use std::fs::{self, File, Metadata};
use std::io::{BufReader, Read, Seek};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use tar::EntryType;

/// Programs that can be PID 1, in the order in which Linux looks for them.
const INITS: [&str; 5] = ["/init", "/sbin/init", "/etc/init", "/bin/init", "/bin/sh"];

/// A root file system to boot.
pub struct Root {
    /// As an initramfs.
    pub archive: Archive,
    /// The program for PID 1.
    pub init: String,
}

/// Reads a folder or an archive; an error when its files have more than `room` bytes, or when there
/// is nothing to start in it: the program `init` that the user named, or one of [`INITS`].
pub fn read(named: &Path, room: u64, init: Option<&str>) -> Result<Root, UsageError> {
    let path = workspace::user_path(named);
    let wrong = |why: String| UsageError(format!("--rootfs {}: {why}", path.display()));
    let about = fs::metadata(&path).map_err(|error| wrong(error.to_string()))?;
    let archive = match about.is_dir() {
        true => of_folder(&path, room),
        false => of_tar(&path, room),
    };
    let archive = archive.map_err(|error| wrong(format!("{error:#}")))?;
    let starts = |path: &&&str| {
        let found = archive.resolve(path);
        found.is_some_and(|it| matches!(it.kind, ModeFileType::Regular) && it.mode & 0o111 != 0)
    };
    let wanted = init.as_ref().map_or(&INITS[..], core::slice::from_ref);
    let Some(init) = wanted.iter().find(starts) else {
        return Err(wrong(format!(
            "it has nothing to start: none of {}",
            wanted.join(", ")
        )));
    };
    let init = init.to_string();
    Ok(Root { archive, init })
}

/// What is left of the machine's memory for files.
struct Room {
    all: u64,
    left: u64,
}

impl Room {
    fn new(all: u64) -> Room {
        Room { all, left: all }
    }

    fn take(&mut self, bytes: u64) -> Result<()> {
        match self.left.checked_sub(bytes) {
            Some(left) => self.left = left,
            None => bail!(
                "its files do not fit into the machine's {} MiB of memory: --mem",
                self.all >> 20
            ),
        }
        Ok(())
    }
}

/// A folder and all below it, sorted by name. All is root's: who unpacked a file system need not
/// have been root.
pub fn of_folder(folder: &Path, room: u64) -> Result<Archive> {
    let mut archive = Archive::default();
    let mut walk = Walk {
        archive: &mut archive,
        room: Room::new(room),
        linked: HashMap::new(),
    };
    walk.folder(folder, "")?;
    Ok(archive)
}

struct Walk<'a> {
    archive: &'a mut Archive,
    room: Room,
    /// Files with several names, by device and inode.
    linked: HashMap<(u64, u64), String>,
}

impl Walk<'_> {
    fn folder(&mut self, folder: &Path, prefix: &str) -> Result<()> {
        let entries = fs::read_dir(folder)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .with_context(|| format!("cannot read {}", folder.display()))?;
        let mut names: Vec<_> = entries.iter().map(fs::DirEntry::file_name).collect();
        names.sort();
        for name in names {
            let path = folder.join(&name);
            let name = text(name.as_bytes())?;
            self.one(&path, &format!("{prefix}{name}"))
                .with_context(|| format!("cannot read {}", path.display()))?;
        }
        Ok(())
    }

    fn one(&mut self, path: &Path, place: &str) -> Result<()> {
        let about = fs::symlink_metadata(path)?;
        let Some(kind) = kind(&about) else {
            // A socket is of use only to the process that made it.
            return Ok(());
        };
        let same = (about.dev(), about.ino());
        let several = about.is_file() && about.nlink() > 1;
        if several && let Some(first) = self.linked.get(&same) {
            self.archive.hard_link(place, first)?;
            return Ok(());
        }
        let content = match kind {
            ModeFileType::Regular => {
                self.room.take(about.len())?;
                fs::read(path)?
            }
            ModeFileType::Symlink => fs::read_link(path)?.as_os_str().as_bytes().to_owned(),
            _ => Vec::new(),
        };
        let device = about.rdev();
        let mut entry = Entry::new(place, about.mode() & 0o7777, kind, content);
        entry.device = [rustix::fs::major(device), rustix::fs::minor(device)];
        self.archive.add(entry)?;
        if several {
            self.linked.insert(same, place.to_owned());
        }
        match about.is_dir() {
            true => self.folder(path, &format!("{place}/")),
            false => Ok(()),
        }
    }
}

/// The types of cpio; `None` for a socket.
fn kind(about: &Metadata) -> Option<ModeFileType> {
    let kind = about.file_type();
    Some(if kind.is_file() {
        ModeFileType::Regular
    } else if kind.is_dir() {
        ModeFileType::Directory
    } else if kind.is_symlink() {
        ModeFileType::Symlink
    } else if kind.is_fifo() {
        ModeFileType::Fifo
    } else if kind.is_char_device() {
        ModeFileType::Char
    } else if kind.is_block_device() {
        ModeFileType::Block
    } else {
        return None;
    })
}

fn text(name: &[u8]) -> Result<&str> {
    std::str::from_utf8(name)
        .with_context(|| format!("the name {:?} is not UTF-8", String::from_utf8_lossy(name)))
}

/// A tar archive, which may be packed by gzip.
fn of_tar(path: &Path, room: u64) -> Result<Archive> {
    let mut file = File::open(path)?;
    let mut magic = [0; 4];
    let len = file.read(&mut magic)?;
    file.rewind()?;
    let file = BufReader::new(file);
    let bytes: Box<dyn Read> = match &magic[..len] {
        [0x1f, 0x8b, ..] => Box::new(MultiGzDecoder::new(file)),
        [0x28, 0xb5, 0x2f, 0xfd] => bail!("it is packed by zstd: unpack it first (zstd -dk)"),
        [0xfd, b'7', b'z', b'X'] => bail!("it is packed by xz: unpack it first (xz -dk)"),
        [b'B', b'Z', b'h', _] => bail!("it is packed by bzip2: unpack it first (bzip2 -dk)"),
        _ => Box::new(file),
    };
    let mut archive = Archive::default();
    let mut room = Room::new(room);
    let mut tar = tar::Archive::new(bytes);
    for member in tar.entries().context("it is no tar archive")? {
        unpack(
            &mut archive,
            member.context("it is no sound tar archive")?,
            &mut room,
        )?;
    }
    Ok(archive)
}

fn unpack(
    archive: &mut Archive,
    mut member: tar::Entry<'_, impl Read>,
    room: &mut Room,
) -> Result<()> {
    let path = member.path_bytes().into_owned();
    let place = place(text(&path)?);
    if place.is_empty() {
        return Ok(());
    }
    for (at, _) in place.match_indices('/') {
        archive.folder_if_absent(&place[..at])?;
    }
    let target = member
        .link_name_bytes()
        .map(|name| name.into_owned())
        .unwrap_or_default();
    let (kind, content) = match member.header().entry_type() {
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
            room.take(member.size())?;
            let mut content = Vec::new();
            member.read_to_end(&mut content)?;
            // The reader takes the end of a cut archive for the end of the member.
            ensure!(
                content.len() as u64 == member.size(),
                "it ends inside {place}"
            );
            (ModeFileType::Regular, content)
        }
        EntryType::Link => {
            archive.hard_link(&place, &self::place(text(&target)?))?;
            return Ok(());
        }
        EntryType::Directory if archive.resolve(&place).is_some() => return Ok(()),
        EntryType::Directory => (ModeFileType::Directory, Vec::new()),
        EntryType::Symlink => (ModeFileType::Symlink, target),
        EntryType::Char => (ModeFileType::Char, Vec::new()),
        EntryType::Block => (ModeFileType::Block, Vec::new()),
        EntryType::Fifo => (ModeFileType::Fifo, Vec::new()),
        // Headers about other members.
        _ => return Ok(()),
    };
    let header = member.header();
    // Other members may have anything in the fields of a device, and not only numbers.
    let is_device = matches!(kind, ModeFileType::Char | ModeFileType::Block);
    let mut entry = Entry::new(&place, header.mode()? & 0o7777, kind, content);
    entry.owner = [header.uid()? as u32, header.gid()? as u32];
    if is_device {
        entry.device = [
            header.device_major()?.unwrap_or(0),
            header.device_minor()?.unwrap_or(0),
        ];
    }
    archive.add(entry)?;
    Ok(())
}

/// A member's path without `./`, double slashes and what leads out of the archive.
fn place(path: &str) -> String {
    let parts = path.split('/');
    let sound = parts.filter(|part| !["", ".", ".."].contains(part));
    sound.collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::workspace::Temporary;
    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn sample() -> Temporary {
        let folder = Temporary::folder("rootfs").unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir_all(path("usr/bin")).unwrap();
        fs::write(path("usr/bin/sh"), "#!").unwrap();
        fs::set_permissions(path("usr/bin/sh"), PermissionsExt::from_mode(0o755)).unwrap();
        fs::hard_link(path("usr/bin/sh"), path("usr/bin/bash")).unwrap();
        symlink("usr/bin", path("bin")).unwrap();
        folder
    }

    fn tar_of(folder: &Path) -> Vec<u8> {
        let mut tar = tar::Builder::new(Vec::new());
        tar.follow_symlinks(false);
        tar.append_dir_all(".", folder).unwrap();
        tar.into_inner().unwrap()
    }

    fn refused(path: &Path, room: u64) -> String {
        read(path, room, None).err().expect("it is refused").0
    }

    #[test]
    fn a_folder_and_an_archive_of_it() {
        let folder = sample();
        let root = read(folder.path(), 2, None).unwrap();
        assert_eq!(root.init, "/bin/sh");
        assert_eq!(root.archive.paths().len(), 5);
        let named = read(folder.path(), 2, Some("/bin/bash")).unwrap();
        assert_eq!(named.init, "/bin/bash");
        assert!(read(folder.path(), 2, Some("/bin/zsh")).is_err());
        let tar = tar_of(folder.path());
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&tar).unwrap();
        for bytes in [tar, gzip.finish().unwrap()] {
            let file = Temporary::file("tar", &bytes).unwrap();
            let root = read(file.path(), 1 << 20, None).unwrap();
            let sh = root.archive.resolve("/bin/sh").unwrap();
            assert_eq!((root.init.as_str(), sh.mode), ("/bin/sh", 0o755));
        }
    }

    /// GNU tar's format has blanks where other members' devices would stand.
    #[test]
    fn an_archive_of_gnu_tar() {
        let folder = sample();
        let made = std::process::Command::new("tar")
            .args(["--format=gnu", "-c", "-C"])
            .arg(folder.path())
            .arg(".")
            .output();
        let file = Temporary::file("tar", &made.unwrap().stdout).unwrap();
        let root = read(file.path(), 1 << 20, None).unwrap();
        assert_eq!(
            (root.init.as_str(), root.archive.paths().len()),
            ("/bin/sh", 5)
        );
    }

    #[test]
    fn what_cannot_be_booted() {
        let folder = sample();
        assert!(refused(folder.path(), 1).contains("do not fit into the machine's 0 MiB"));
        assert!(refused(&folder.path().join("none"), 9).contains("No such file"));
        assert!(
            refused(&folder.path().join("usr/bin"), 9).contains("nothing to start: none of /init")
        );
        let of = |bytes: &[u8]| refused(Temporary::file("tar", bytes).unwrap().path(), 1 << 20);
        assert!(of(b"").contains("nothing to start"));
        assert!(of(&[b'x'; 2000]).contains("no sound tar archive"));
        assert!(of(b"\xfd7zXZ\0").contains("xz -dk"));
        let tar = tar_of(folder.path());
        let text = tar.windows(2).position(|bytes| bytes == b"#!").unwrap();
        assert!(of(&tar[..text + 1]).contains("it ends inside"));
    }

    #[test]
    fn paths_stay_inside() {
        for (path, expected) in [
            ("./a//b/", "a/b"),
            ("../../etc", "etc"),
            ("/", ""),
            ("./", ""),
        ] {
            assert_eq!(place(path), expected);
        }
    }
}
