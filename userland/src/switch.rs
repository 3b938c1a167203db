//! A switch of Quire's memory manager, under `/sys/kernel/mm/quire`; restored on drop.
use crate::sys::Result;
use std::fs;
use std::path::{Path, PathBuf};

/// Whether all processes share an id in Quire's account (`ids=1`): each takes its large folios for
/// shared, then.
pub fn share_an_id() -> bool {
    fs::read_to_string("/sys/kernel/mm/quire/ids").is_ok_and(|ids| ids.trim() == "1")
}

/// A switch that can be set, and its word before.
pub struct Switch {
    path: PathBuf,
    before: String,
}

impl Switch {
    /// Saves its word; `None` where the kernel has no such switch.
    pub fn take(name: &str) -> Option<Switch> {
        Switch::at(Path::new("/sys/kernel/mm/quire").join(name))
    }

    /// The same of a file elsewhere.
    pub fn at(path: PathBuf) -> Option<Switch> {
        let before = fs::read_to_string(&path).ok()?;
        Some(Switch { path, before })
    }

    /// Calls `act` with each of these words, to which it is set then; on a kernel that has no such
    /// switch, once with the one that says what that does.
    pub fn each<'a>(
        name: &str,
        words: &[&'a str],
        elsewhere: &'a str,
        mut act: impl FnMut(&'a str) -> Result<()>,
    ) -> Result<()> {
        let Some(switch) = Switch::take(name) else {
            return act(elsewhere);
        };
        words.iter().try_for_each(|word| {
            switch.set(word)?;
            act(word)
        })
    }

    /// Sets it to one of its words.
    pub fn set(&self, word: &str) -> Result<()> {
        Ok(fs::write(&self.path, word)?)
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        if self.set(self.before.trim()).is_err() {
            eprintln!("cannot put {} back to {}", self.path.display(), self.before);
        }
    }
}
