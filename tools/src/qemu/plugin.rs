//! The plugin `tools/plugin` on a machine, and where it comes from.
use crate::arch::Arch;
use crate::build;
use anyhow::{Context, Result};
use measure::record::Record;
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
    /// Whether it keeps the lines that each CPU touches.
    pub lines: bool,
    /// The model that sees what the guest does, if any.
    pub model: Option<Model>,
}

/// A model of a core.
#[derive(Clone, Debug)]
pub struct Model {
    /// Which: see `models::presets`.
    pub core: String,
    /// A file that QEMU makes to be the guest's memory; best where files are memory, too.
    pub ram: PathBuf,
    /// Whether the core caches contiguous runs as one.
    pub contiguous: bool,
}

impl Plugin {
    /// Builds it; it counts only.
    pub fn build(out: &Path) -> Result<Plugin> {
        Ok(Plugin {
            file: build::plugin()?,
            out: out.to_owned(),
            lines: false,
            model: None,
        })
    }

    /// The value of QEMU's `-plugin`.
    pub(super) fn option(&self) -> OsString {
        let mut option = escaped(&self.file);
        option.push(",out=");
        option.push(escaped(&self.out));
        if self.lines {
            option.push(",lines=on");
        }
        if let Some(model) = &self.model {
            option.push(format!(",model={},ram=", model.core));
            option.push(escaped(&model.ram));
            if !model.contiguous {
                option.push(",contiguous=off");
            }
        }
        option
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

impl Model {
    /// The value of QEMU's `-object` that makes `size` of memory of the file; its name is `ram`.
    pub(super) fn object(&self, size: &str) -> OsString {
        let mut object = OsString::from("memory-backend-file,id=ram,share=on,mem-path=");
        object.push(escaped(&self.ram));
        object.push(format!(",size={size}"));
        object
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
    use crate::workspace::Temporary;

    #[test]
    fn options() {
        let mut plugin = Plugin {
            file: "/t/a,b/libquire_plugin.so".into(),
            out: "/t/out".into(),
            lines: false,
            model: None,
        };
        let option = plugin.option();
        assert_eq!(option, "/t/a,,b/libquire_plugin.so,out=/t/out");
        plugin.lines = true;
        let option = plugin.option();
        assert!(option.to_string_lossy().ends_with(",lines=on"));
        let model = Model {
            core: "zen4".to_owned(),
            ram: "/t/m,1".into(),
            contiguous: false,
        };
        let object = model.object("1G");
        assert!(
            object
                .to_string_lossy()
                .ends_with("mem-path=/t/m,,1,size=1G")
        );
        plugin.model = Some(model);
        let option = plugin.option().to_string_lossy().into_owned();
        assert!(
            option.ends_with(",model=zen4,ram=/t/m,,1,contiguous=off"),
            "{option}"
        );
    }

    #[test]
    fn a_line_that_is_no_record_is_named() {
        let out = Temporary::file("jsonl", b"{}\n").unwrap();
        let plugin = Plugin {
            file: PathBuf::new(),
            out: out.path().to_owned(),
            lines: false,
            model: None,
        };
        let error = format!("{:#}", plugin.records().unwrap_err());
        assert!(error.contains(":1: no \"name\""), "{error}");
    }
}
