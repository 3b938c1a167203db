//! Figures in a file, so that an interrupted run can be continued, and a table be formatted again
//! without measuring.
use super::table::Runs;
use crate::bench::cells::{Cell, Cells, cell};
use anyhow::{Context, Result};
use serde_json::Value;
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use tools::host::arch::Arch;

/// The file, if there is to be one: a JSON line for each figure, as the bench printed it, with its
/// machine, words and region.
pub struct Kept {
    /// Its path.
    pub file: Option<PathBuf>,
    /// Pages of the region.
    pub pages: u64,
}

impl Kept {
    /// What it has of one machine.
    pub fn read(&self, arch: Arch) -> Result<Runs> {
        let Some(path) = &self.file else {
            return Ok(Runs::default());
        };
        let name = || path.display().to_string();
        let text = fs::read_to_string(path).with_context(name)?;
        let mut runs = Runs::default();
        for line in text.lines() {
            let line: Value = serde_json::from_str(line).with_context(name)?;
            let words = line["words"].as_str().with_context(name)?;
            let (key, figure) = cell(&line).with_context(name)?;
            if line["arch"] == arch.name() && line["region"] == self.pages {
                let cell = Cell {
                    figure,
                    line: line.clone(),
                };
                runs.0.push((words.to_owned(), [(key, cell)].into()));
            }
        }
        Ok(runs)
    }

    /// Puts the figures of a boot at its end.
    pub fn add(&self, arch: Arch, words: &str, cells: &Cells) -> Result<()> {
        let Some(path) = &self.file else {
            return Ok(());
        };
        let mut text = String::new();
        for cell in cells.values() {
            let mut line = cell.line.clone();
            line["arch"] = arch.name().into();
            line["words"] = words.into();
            line["region"] = self.pages.into();
            text += &format!("{line}\n");
        }
        let name = || path.display().to_string();
        let mut file = File::options().append(true).open(path).with_context(name)?;
        file.write_all(text.as_bytes()).with_context(name)
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::Point;
    use super::*;
    use serde_json::json;
    use tools::host::workspace::Temporary;

    #[test]
    fn what_was_kept_is_found_again() {
        let file = Temporary::file("json", b"").unwrap();
        let kept = |pages| Kept {
            file: Some(file.path().to_owned()),
            pages,
        };
        let point = Point::new("cow=page", "fork", 64);
        let line = json!({"op": "fork", "folio_kb": 64, "per_page": 1.5, "pgfault": 7});
        let cells = [(point.key(), Cell { figure: 1.5, line })].into();
        kept(512).add(Arch::X86_64, point.words, &cells).unwrap();
        let runs = kept(512).read(Arch::X86_64).unwrap();
        let cell = runs.cell(&point).unwrap();
        assert_eq!((cell.figure, cell.counter("pgfault")), (1.5, 7));
        // Of another machine, another kernel, another region.
        assert_eq!(kept(512).read(Arch::Aarch64).unwrap().cell(&point), None);
        assert_eq!(runs.cell(&Point::new("", "fork", 64)), None);
        assert_eq!(kept(1024).read(Arch::X86_64).unwrap().cell(&point), None);
    }

    #[test]
    fn a_broken_file_is_an_error() {
        let file = Temporary::file("json", b"{half\n").unwrap();
        let kept = Kept {
            file: Some(file.path().to_owned()),
            pages: 512,
        };
        assert!(kept.read(Arch::X86_64).is_err());
    }
}
