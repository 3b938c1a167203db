//! Settings of the folio sizes that the kernel may use, through Linux's sysfs files; restored on
//! drop.
use crate::sys::Result;
use std::fs;
use std::path::{Path, PathBuf};

const ROOT: &str = "/sys/kernel/mm/transparent_hugepage";

/// The settings before.
pub struct Controls(Vec<(PathBuf, String)>);

impl Controls {
    /// Saves all settings; none where the kernel has no such files.
    pub fn take() -> Controls {
        let entries = fs::read_dir(ROOT).into_iter().flatten().flatten();
        let files = entries
            .map(|entry| entry.path().join("enabled"))
            .filter(|path| path.exists());
        let mut saved: Vec<_> = files
            .filter_map(|path| Some((path.clone(), chosen(&path)?)))
            .collect();
        saved.sort();
        Controls(saved)
    }

    /// `always` for folios of `kb`, `never` for all others; 4 is `never` for all. Whether the
    /// kernel has such folios.
    pub fn only(&self, kb: usize) -> Result<bool> {
        let wanted = format!("hugepages-{kb}kB");
        let mut found = kb == 4;
        for (path, _) in &self.0 {
            let this = path
                .parent()
                .is_some_and(|folder| folder.ends_with(&wanted));
            write(path, if this { "always" } else { "never" })?;
            found |= this;
        }
        Ok(found)
    }

    /// `always` for folios of every size.
    pub fn every(&self) -> Result<()> {
        self.0
            .iter()
            .try_for_each(|(path, _)| write(path, "always"))
    }
}

impl Drop for Controls {
    fn drop(&mut self) {
        for (path, value) in &self.0 {
            if write(path, value).is_err() {
                eprintln!("cannot put {} back to {value}", path.display());
            }
        }
    }
}

impl Controls {
    /// Whether there is a control for each size, or no large folio at all: one setting for all
    /// sizes does not show 4 kB.
    pub fn each_size(&self) -> bool {
        !self.0.is_empty() || !Path::new(ROOT).join("enabled").exists()
    }

    /// Whether this process may change them: each takes the word that it holds.
    pub fn may_set(&self) -> bool {
        self.0.iter().all(|(path, word)| write(path, word).is_ok())
    }

    /// The largest folio size that memory with MADV_HUGEPAGE can get, in kB: 4 when every size is
    /// `never`. Drops the saved settings, so that nothing is restored.
    pub fn largest(mut self) -> usize {
        let inherited =
            chosen(&Path::new(ROOT).join("enabled")).is_some_and(|word| word != "never");
        let on =
            |word: &str| word == "inherit" && inherited || word == "always" || word == "madvise";
        let sizes = self.0.drain(..).filter(|(_, word)| on(word));
        sizes.filter_map(|(path, _)| size(&path)).max().unwrap_or(4)
    }
}

/// The kB in `.../hugepages-64kB/enabled`.
fn size(path: &Path) -> Option<usize> {
    let folder = path.parent()?.file_name()?.to_str()?;
    folder
        .strip_prefix("hugepages-")?
        .strip_suffix("kB")?
        .parse()
        .ok()
}

/// The word in brackets.
fn chosen(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

fn write(path: &Path, value: &str) -> Result<()> {
    use std::io::Write;
    let mut file = fs::OpenOptions::new().write(true).open(path)?;
    Ok(file.write_all(value.as_bytes())?)
}
