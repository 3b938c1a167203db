//! newc archives, byte for byte the same from the same files.
use anyhow::{Context, Result};
use cpio::newc::{Builder, ModeFileType, trailer};
use std::fs;
use std::path::PathBuf;

/// An archive under construction. Owner root, all times 0, inode numbers in order.
#[derive(Default)]
pub struct Archive {
    bytes: Vec<u8>,
    entries: u32,
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
        use std::io::Write;
        self.entries += 1;
        let header = Builder::new(path)
            .ino(self.entries)
            .nlink(1)
            .mode(mode)
            .set_mode_file_type(kind);
        let mut writer = header.write(&mut self.bytes, content.len() as u32);
        writer.write_all(content)?;
        writer
            .finish()
            .with_context(|| format!("cannot add {path} to the archive"))?;
        Ok(self)
    }

    /// The archive with its trailer.
    pub fn finish(self) -> Result<Vec<u8>> {
        Ok(trailer(self.bytes)?)
    }
}

/// The default initramfs: `init` as /init, the other programs in /bin, and the directories that programs expect.
pub fn default_archive(programs: &[PathBuf]) -> Result<Vec<u8>> {
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
    archive.finish()
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
