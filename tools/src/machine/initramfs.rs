//! newc archives, byte for byte the same from the same files.
use anyhow::{Context, Result, bail, ensure};
use cpio::newc::{Builder, ModeFileType, trailer};
use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

/// An archive under construction. All times 0, inode numbers in order; what has no owner is root's.
#[derive(Default)]
pub struct Archive {
    entries: Vec<Entry>,
    /// Where each path is.
    places: HashMap<String, usize>,
}

/// One member.
pub struct Entry {
    /// Without a slash at its beginning.
    pub path: String,
    /// Permissions.
    pub mode: u32,
    /// Its type.
    pub kind: ModeFileType,
    /// Of a regular file, or where a symbolic link leads.
    pub content: Vec<u8>,
    /// User and group.
    pub owner: [u32; 2],
    /// Major and minor number of a device node.
    pub device: [u32; 2],
    /// The first name of the same file (a hard link), by its number in the archive.
    first: Option<usize>,
    /// It has more names.
    linked: bool,
}

impl Entry {
    /// Root's.
    pub fn new(path: &str, mode: u32, kind: ModeFileType, content: Vec<u8>) -> Entry {
        Entry {
            path: path.to_owned(),
            mode,
            kind,
            content,
            owner: [0; 2],
            device: [0; 2],
            first: None,
            linked: false,
        }
    }
}

impl Archive {
    /// A directory; parents must be added first.
    pub fn directory(&mut self, path: &str) -> Result<&mut Self> {
        self.entry(path, 0o755, ModeFileType::Directory, &[])
    }

    /// A regular file.
    pub fn file(&mut self, path: &str, mode: u32, content: &[u8]) -> Result<&mut Self> {
        self.entry(path, mode, ModeFileType::Regular, content)
    }

    /// A symbolic link.
    pub fn link(&mut self, path: &str, to: &str) -> Result<&mut Self> {
        self.entry(path, 0o777, ModeFileType::Symlink, to.as_bytes())
    }

    fn entry(
        &mut self,
        path: &str,
        mode: u32,
        kind: ModeFileType,
        content: &[u8],
    ) -> Result<&mut Self> {
        self.add(Entry::new(path, mode, kind, content.to_owned()))
    }

    /// Anything else.
    pub fn add(&mut self, entry: Entry) -> Result<&mut Self> {
        let (path, number) = (entry.path.clone(), self.entries.len());
        ensure!(
            self.places.insert(path, number).is_none(),
            "{} is in the archive twice",
            entry.path
        );
        self.entries.push(entry);
        Ok(self)
    }

    /// Another name of a file that is there.
    pub fn hard_link(&mut self, path: &str, to: &str) -> Result<&mut Self> {
        let found = self.places.get(to).copied();
        let found = found.with_context(|| format!("{path} is a link to {to}, which is missing"))?;
        let first = self.entries[found].first.unwrap_or(found);
        let target = &mut self.entries[first];
        target.linked = true;
        let mut entry = Entry::new(path, target.mode, ModeFileType::Regular, Vec::new());
        (entry.owner, entry.first, entry.linked) = (target.owner, Some(first), true);
        self.add(entry)
    }

    /// Where a path leads by the archive's own symbolic links; `None` when nothing is there.
    pub fn resolve(&self, path: &str) -> Option<&Entry> {
        // As many links as Linux follows.
        let mut links = 40;
        let mut left: Vec<String> = path.split('/').rev().map(str::to_owned).collect();
        let mut at: Vec<String> = Vec::new();
        let mut found = None;
        while let Some(part) = left.pop() {
            match part.as_str() {
                "" | "." => continue,
                ".." => _ = at.pop(),
                _ => at.push(part),
            }
            let entry = self
                .places
                .get(&at.join("/"))
                .map(|number| &self.entries[*number]);
            found = match entry {
                Some(entry) if matches!(entry.kind, ModeFileType::Symlink) => {
                    let target = String::from_utf8_lossy(&entry.content);
                    if target.starts_with('/') {
                        at.clear();
                    } else {
                        at.pop();
                    }
                    left.extend(target.split('/').rev().map(str::to_owned));
                    links -= 1;
                    None
                }
                entry => entry,
            };
            if links == 0 {
                return None;
            }
        }
        found
    }

    /// The paths of all that is in it.
    pub fn paths(&self) -> Vec<String> {
        self.entries
            .iter()
            .map(|entry| entry.path.clone())
            .collect()
    }

    fn find(&mut self, path: &str) -> Option<&mut Entry> {
        let number = self.places.get(path)?;
        Some(&mut self.entries[*number])
    }

    /// A directory, unless it is there.
    pub fn folder_if_absent(&mut self, path: &str) -> Result<()> {
        match self.find(path) {
            Some(entry) if matches!(entry.kind, ModeFileType::Directory) => {}
            Some(_) => bail!("/{path} is a file of the archive, not a folder"),
            None => _ = self.directory(path)?,
        }
        Ok(())
    }

    /// A regular file, in the place of one that is there.
    pub fn replace(&mut self, path: &str, mode: u32, content: &[u8]) -> Result<()> {
        match self.find(path) {
            Some(entry) if matches!(entry.kind, ModeFileType::Directory) => {
                bail!("/{path} is a folder of the archive")
            }
            Some(entry) => {
                (entry.mode, entry.kind) = (mode, ModeFileType::Regular);
                entry.content = content.to_owned();
            }
            None => _ = self.file(path, mode, content)?,
        }
        Ok(())
    }

    /// The archive with its trailer.
    pub fn finish(self) -> Result<Vec<u8>> {
        use std::io::Write;
        let mut bytes = Vec::new();
        for (number, entry) in (1..).zip(self.entries) {
            let size = u32::try_from(entry.content.len());
            let size = size.with_context(|| format!("{} is larger than 4 GiB", entry.path))?;
            let header = Builder::new(&entry.path)
                .ino(entry.first.map_or(number, |first| first as u32 + 1))
                .nlink(1 + u32::from(entry.linked))
                .mode(entry.mode)
                .uid(entry.owner[0])
                .gid(entry.owner[1])
                .rdev_major(entry.device[0])
                .rdev_minor(entry.device[1])
                .set_mode_file_type(entry.kind);
            let mut writer = header.write(&mut bytes, size);
            writer.write_all(&entry.content)?;
            writer
                .finish()
                .with_context(|| format!("cannot add {} to the archive", entry.path))?;
        }
        Ok(trailer(bytes)?)
    }
}

/// Commands of the shell that are links to it in /bin, one a line.
const COMMANDS: &str = include_str!("../../../userland/src/sh/files.txt");

/// The default initramfs: `init` as /init, the other programs in /bin, with links to the shell for
/// those of its commands that may be programs, and the directories that programs expect.
pub fn default_archive(programs: &[PathBuf]) -> Result<Archive> {
    let mut programs = programs.to_vec();
    programs.sort();
    let mut archive = Archive::default();
    for directory in ["bin", "dev", "etc", "proc", "root", "sys", "tmp"] {
        archive.directory(directory)?;
    }
    for path in &programs {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .context("a program without a name")?;
        let content = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let place = if name == "init" {
            "init".to_owned()
        } else {
            format!("bin/{name}")
        };
        archive.file(&place, 0o755, &content)?;
    }
    for name in COMMANDS.lines() {
        archive.link(&format!("bin/{name}"), "sh")?;
    }
    Ok(archive)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cpio::newc::Reader;
    use std::io::Read;

    #[test]
    fn reads_back_and_repeats() {
        let make = || {
            let mut archive = Archive::default();
            archive
                .directory("bin")
                .unwrap()
                .file("bin/sh", 0o755, b"#!")
                .unwrap()
                .link("sh", "bin/sh")
                .unwrap();
            archive.finish().unwrap()
        };
        let bytes = make();
        assert_eq!(bytes, make());
        let mut input = &bytes[..];
        let mut seen = Vec::new();
        loop {
            let mut reader = Reader::new(input).unwrap();
            if reader.entry().is_trailer() {
                break;
            }
            let mut content = String::new();
            reader.read_to_string(&mut content).unwrap();
            seen.push((
                reader.entry().name().to_owned(),
                reader.entry().mode(),
                content,
            ));
            input = reader.finish().unwrap();
        }
        let expected = [
            ("bin", 0o040755, ""),
            ("bin/sh", 0o100755, "#!"),
            ("sh", 0o120777, "bin/sh"),
        ];
        assert_eq!(
            seen,
            expected.map(|(name, mode, content)| (name.to_owned(), mode, content.to_owned()))
        );
    }
    #[test]
    fn paths_lead_through_links() {
        let mut archive = Archive::default();
        archive
            .directory("usr")
            .unwrap()
            .directory("usr/bin")
            .unwrap();
        archive.link("bin", "usr/bin").unwrap();
        archive.file("usr/bin/bash", 0o755, b"#!").unwrap();
        archive.link("usr/bin/sh", "bash").unwrap();
        archive.link("init", "/bin/../bin/sh").unwrap();
        archive.link("round", "round").unwrap();
        archive.hard_link("usr/bin/rbash", "usr/bin/bash").unwrap();
        assert!(archive.hard_link("no", "nowhere").is_err());
        let leads = |path| archive.resolve(path).map(|entry| entry.path.as_str());
        for path in ["/init", "bin/sh", "/bin/bash", "usr/bin/sh"] {
            assert_eq!(leads(path), Some("usr/bin/bash"), "{path}");
        }
        assert_eq!(leads("/bin/rbash"), Some("usr/bin/rbash"));
        for path in ["/round", "/sbin/init", "/bin/none", "/bin/sh/x"] {
            assert_eq!(leads(path), None, "{path}");
        }
        let bytes = archive.finish().unwrap();
        let first = Reader::new(&bytes[..]).unwrap();
        assert_eq!((first.entry().name(), first.entry().nlink()), ("usr", 1));
    }
}
