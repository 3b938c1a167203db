//! newc archives, byte for byte the same from the same files.
use anyhow::{Context, Result, bail, ensure};
use cpio::newc::{Builder, ModeFileType, trailer};
use std::fs;
use std::path::PathBuf;

/// An archive under construction. Owner root, all times 0, inode numbers in order.
#[derive(Default)]
pub struct Archive(Vec<Entry>);

struct Entry {
    path: String,
    mode: u32,
    kind: ModeFileType,
    content: Vec<u8>,
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
        ensure!(self.find(path).is_none(), "{path} is in the archive twice");
        self.0.push(Entry {
            path: path.to_owned(),
            mode,
            kind,
            content: content.to_owned(),
        });
        Ok(self)
    }

    /// The paths of all that is in it.
    pub fn paths(&self) -> Vec<String> {
        self.0.iter().map(|entry| entry.path.clone()).collect()
    }

    fn find(&mut self, path: &str) -> Option<&mut Entry> {
        self.0.iter_mut().find(|entry| entry.path == path)
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
        for (number, entry) in (1..).zip(self.0) {
            let header = Builder::new(&entry.path)
                .ino(number)
                .nlink(1)
                .mode(entry.mode)
                .set_mode_file_type(entry.kind);
            let mut writer = header.write(&mut bytes, entry.content.len() as u32);
            writer.write_all(&entry.content)?;
            writer
                .finish()
                .with_context(|| format!("cannot add {} to the archive", entry.path))?;
        }
        Ok(trailer(bytes)?)
    }
}

/// Commands of the shell that are links to it in /bin, one a line.
const COMMANDS: &str = include_str!("../../userland/src/sh/files.txt");

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
}
