//! The kernel's figures in `/proc` and `/sys` files of `name value` lines.
use crate::sys::Errno;
use std::collections::BTreeMap;
use std::fmt;
use std::fs;

/// Quire's own counters; no other kernel has the file.
pub const OWN: &str = "/sys/kernel/mm/quire/counters";

/// The error of a figure that is missing. It never reads as 0: a test that compares two readings of
/// it would pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The file.
    pub path: String,
    /// The name that none of its lines begins with.
    pub name: String,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no {} in {}", self.name, self.path)
    }
}

impl std::error::Error for Missing {}

impl Missing {
    /// Prints it on standard error, for programs whose errors are numbers: ENODATA.
    pub fn say(self) -> Errno {
        eprintln!("{self}");
        Errno(libc::ENODATA)
    }
}

/// Values by name, and the file they are from.
#[derive(Clone, Debug, Default)]
pub struct Table {
    path: String,
    values: BTreeMap<String, u64>,
}

impl Table {
    /// Parses lines of a name, a value and maybe a unit (`pgfault 12`, `MemFree:  12 kB`); others
    /// are skipped. `path` is what [`Missing`] names.
    pub fn parse(path: &str, text: &str) -> Table {
        let value = |line: &str| {
            let mut words = line.split_whitespace();
            let name = words.next()?.trim_end_matches(':');
            Some((name.to_string(), words.next()?.parse().ok()?))
        };
        Table {
            path: path.to_owned(),
            values: text.lines().filter_map(value).collect(),
        }
    }

    /// Adds figures of another file.
    pub fn extend(&mut self, values: Vec<(String, u64)>) {
        self.values.extend(values);
    }

    /// All of them, in the order of their names.
    pub fn into_values(self) -> impl Iterator<Item = (String, u64)> {
        self.values.into_iter()
    }

    /// One figure.
    pub fn get(&self, name: &str) -> Result<u64, Missing> {
        self.values.get(name).copied().ok_or_else(|| Missing {
            path: self.path.clone(),
            name: name.to_owned(),
        })
    }
}

/// Whether the kernel is Quire.
pub fn on_quire() -> bool {
    fs::metadata("/proc/sys/quire").is_ok()
}

/// The table in a file; empty when there is none.
pub fn table(path: &str) -> Table {
    Table::parse(path, &fs::read_to_string(path).unwrap_or_default())
}

/// One figure of a file.
pub fn figure(path: &str, name: &str) -> Result<u64, Missing> {
    table(path).get(name)
}

/// One of Quire's own counters.
pub fn own(name: &str) -> Result<u64, Missing> {
    figure(OWN, name)
}

/// Free frames, from `/proc/vmstat`, else from `/proc/meminfo`.
pub fn free_frames() -> Result<u64, Missing> {
    figure("/proc/vmstat", "nr_free_pages")
        .or_else(|_| figure("/proc/meminfo", "MemFree").map(|kb| kb / 4))
}

/// The smaps entry of the mapping that starts at `start`: its fields in kB.
pub fn smaps_of(start: usize) -> Option<Table> {
    const SMAPS: &str = "/proc/self/smaps";
    let text = fs::read_to_string(SMAPS).ok()?;
    let from = text
        .find(&format!("\n{start:08x}-"))
        .map(|n| n + 1)
        .or_else(|| text.starts_with(&format!("{start:08x}-")).then_some(0))?;
    let entry = text[from..].lines().skip(1).take_while(|l| !is_header(l));
    Some(Table::parse(SMAPS, &entry.collect::<Vec<_>>().join("\n")))
}

/// Whether a line of smaps or maps starts a mapping (`START-END perms ...`).
pub fn is_header(line: &str) -> bool {
    let first = line.split(' ').next().unwrap_or("");
    first.split_once('-').is_some_and(|(a, b)| {
        !a.is_empty()
            && [a, b]
                .iter()
                .all(|s| s.bytes().all(|c| c.is_ascii_hexdigit()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_and_without_units() {
        let t = Table::parse(
            "f",
            "pgfault 12\nMemFree:      34 kB\nVmFlags: rd wr\n\nodd\n",
        );
        assert_eq!(t.get("pgfault"), Ok(12));
        assert_eq!(t.get("MemFree"), Ok(34));
        for name in ["VmFlags", "odd", "MemFree:"] {
            assert!(t.get(name).is_err());
        }
    }

    #[test]
    fn a_missing_figure_is_no_number() {
        let missing = table("/no/such/file").get("pgfault").unwrap_err();
        assert_eq!(missing.to_string(), "no pgfault in /no/such/file");
        assert!(figure("/proc/meminfo", "NoSuchLine").is_err());
    }

    #[test]
    fn headers_are_told_from_fields() {
        assert!(is_header("7f00a000-7f00b000 rw-p 00000000 00:00 0"));
        assert!(!is_header("Size:                  4 kB"));
        assert!(!is_header("VmFlags: rd wr mr-"));
    }
}
