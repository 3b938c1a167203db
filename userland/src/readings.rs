//! Readings of the kernel's counters, and how far they moved between two.
use crate::counters::{self, Table};
use crate::sys::{Errno, Result};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Where counters are; the second only on Quire.
const FILES: [&str; 2] = ["/proc/vmstat", counters::OWN];
/// Room for one of them, in bytes.
const ROOM: usize = 64 << 10;

/// What happens between two readings.
pub struct Readings {
    files: [Option<File>; 2],
    before: Reading,
    after: Reading,
}

impl Readings {
    /// Opens the files and reads them, since the first reading allocates what later ones find.
    pub fn new() -> Result<Readings> {
        let mut new = Readings {
            files: FILES.map(|path| File::open(path).ok()),
            before: Reading::new(),
            after: Reading::new(),
        };
        new.warm()?;
        Ok(new)
    }

    /// Touches all that a reading touches: after a fork, which makes it read-only.
    pub fn warm(&mut self) -> Result<()> {
        self.before.take(&self.files)?;
        self.after.take(&self.files)
    }

    /// Calls `f`, and says which counters moved by how much; levels may fall.
    pub fn around<R>(&mut self, f: impl FnOnce() -> R) -> Result<(R, Vec<(String, i64)>)> {
        self.before.take(&self.files)?;
        let result = f();
        self.after.take(&self.files)?;
        let was: BTreeMap<_, _> = self.before.values().collect();
        let now: BTreeMap<_, _> = self.after.values().collect();
        let moved = now.into_iter().filter_map(|(name, value)| {
            let by = value as i64 - was.get(&name).copied().unwrap_or(0) as i64;
            (by != 0).then_some((name, by))
        });
        Ok((result, moved.collect()))
    }
}

/// A reading of all files: as text, into memory that was touched before, so that reading moves no
/// counter by more than its system calls do.
struct Reading(Vec<(&'static str, Vec<u8>)>);

impl Reading {
    fn new() -> Reading {
        Reading(FILES.map(|path| (path, vec![b' '; ROOM])).to_vec())
    }

    fn take(&mut self, files: &[Option<File>]) -> Result<()> {
        for (file, (_, text)) in files.iter().zip(&mut self.0) {
            let mut length = 0;
            while let Some(file) = file {
                match file.read_at(&mut text[length..], length as u64)? {
                    0 if length == text.len() => return Err(Errno(libc::EFBIG)),
                    0 => break,
                    more => length += more,
                }
            }
            text[length..].fill(b' ');
        }
        Ok(())
    }

    /// The values by name. What two files count is in both the same.
    fn values(&self) -> impl Iterator<Item = (String, u64)> {
        let tables = self.0.iter().map(|(path, text)| {
            let text = String::from_utf8_lossy(text);
            Table::parse(path, &text)
        });
        tables.flat_map(Table::into_values)
    }
}

/// Counters as the inside of a JSON object.
pub fn json(counters: &[(String, i64)]) -> String {
    let counters = counters.iter();
    let counters: Vec<String> = counters
        .map(|(name, by)| format!("\"{name}\":{by}"))
        .collect();
    counters.join(",")
}
