//! The plugin `measure/plugin` on a machine, and where it comes from.
use crate::host::arch::Arch;
use crate::machine::build;
use anyhow::{Context, Result};
use counts::args::Lines;
use counts::record::Record;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The plugin, with its arguments.
#[derive(Clone, Debug)]
pub struct Plugin {
    /// The built plugin: see [`build::plugin`].
    pub file: PathBuf,
    /// The file to which it adds a line for each measurement: see [`Plugin::records`].
    pub out: PathBuf,
    /// What it says of the lines that each CPU touches.
    pub lines: Lines,
    /// A file that QEMU makes to be the guest's memory; best where files are memory, too. Models
    /// need it, and so do lines on aarch64, where QEMU does not report what zeroes pages.
    pub ram: Option<PathBuf>,
    /// The core of the model that sees what the guest does, if any: see `models::presets`.
    pub model: Option<String>,
    /// The file of a stream of pages, and of how many accesses a window is: see `counts::pages`.
    pub pages: Option<(PathBuf, u64)>,
}

impl Plugin {
    /// Builds it; it counts only.
    pub fn build(out: &Path) -> Result<Plugin> {
        Ok(Plugin {
            file: build::plugin()?,
            out: out.to_owned(),
            lines: Lines::Off,
            ram: None,
            model: None,
            pages: None,
        })
    }

    /// The value of QEMU's `-plugin`.
    pub(super) fn option(&self) -> OsString {
        let mut option = escaped(&self.file);
        option.push(",out=");
        option.push(escaped(&self.out));
        option.push(format!(",lines={}", self.lines.word()));
        if let Some(ram) = &self.ram {
            option.push(",ram=");
            option.push(escaped(ram));
        }
        if let Some(core) = &self.model {
            option.push(format!(",model={core}"));
        }
        if let Some((path, window)) = &self.pages {
            option.push(format!(",pages={window}:"));
            option.push(escaped(path));
        }
        option
    }

    /// The value of QEMU's `-object` that makes `size` of memory of the file; its name is `ram`.
    pub(super) fn object(&self, size: &str) -> Option<OsString> {
        let ram = self.ram.as_ref()?;
        let mut object = OsString::from("memory-backend-file,id=ram,share=on,mem-path=");
        object.push(escaped(ram));
        object.push(format!(",size={size}"));
        Some(object)
    }

    /// What was measured so far, in order.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, or has a line that is none of the plugin's.
    pub fn records(&self) -> Result<Vec<Record>> {
        let path = self.out.display();
        let text =
            std::fs::read_to_string(&self.out).with_context(|| format!("cannot read {path}"))?;
        let lines = text.lines().enumerate();
        lines
            .map(|(at, line)| {
                Record::parse(line).map_err(|error| anyhow::anyhow!("{path}:{}: {error}", at + 1))
            })
            .collect()
    }
}

/// Why QEMU cannot load it, if so: plugins can be left out when QEMU is built.
pub fn missing(arch: Arch) -> Result<Option<String>> {
    let qemu = arch.qemu();
    let help = Command::new(qemu).arg("-help").output();
    let help = help.with_context(|| format!("cannot start {qemu}"))?;
    let has = String::from_utf8_lossy(&help.stdout).contains("\n-plugin ");
    Ok((!has).then(|| format!("this {qemu} was built without plugins")))
}

/// A path as a part of one of QEMU's options, in which a comma is written twice.
fn escaped(path: &Path) -> OsString {
    let path = path.to_string_lossy().replace(',', ",,");
    path.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::workspace::Temporary;

    #[test]
    fn options() {
        let mut plugin = Plugin {
            file: "/t/a,b/libquire_plugin.so".into(),
            out: "/t/out".into(),
            lines: Lines::Off,
            ram: None,
            model: None,
            pages: None,
        };
        let option = plugin.option();
        assert_eq!(option, "/t/a,,b/libquire_plugin.so,out=/t/out,lines=off");
        assert_eq!(plugin.object("1G"), None);
        plugin.lines = Lines::Each;
        plugin.ram = Some("/t/m,1".into());
        plugin.model = Some("zen4".to_owned());
        plugin.pages = Some(("/t/p".into(), 9));
        let option = plugin.option().to_string_lossy().into_owned();
        let end = ",lines=each,ram=/t/m,,1,model=zen4,pages=9:/t/p";
        assert!(option.ends_with(end), "{option}");
        let object = plugin.object("1G").unwrap();
        let end = "mem-path=/t/m,,1,size=1G";
        assert!(object.to_string_lossy().ends_with(end), "{object:?}");
    }

    #[test]
    fn a_line_that_is_no_record_is_named() {
        let out = Temporary::file("jsonl", b"{}\n").unwrap();
        let plugin = Plugin {
            file: PathBuf::new(),
            out: out.path().to_owned(),
            lines: Lines::Off,
            ram: None,
            model: None,
            pages: None,
        };
        let error = format!("{:#}", plugin.records().unwrap_err());
        assert!(error.contains(":1: missing field"), "{error}");
    }
}
