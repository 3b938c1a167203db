//! The clock and the kernel's counters around a piece of work.
use crate::region::wrong;
use std::ffi::CStr;
use userland::counters::{Missing, Table, on_quire};
use userland::sys::{Result, file, time};

/// Where counters are; the second only on Quire.
const FILES: [&CStr; 2] = [c"/proc/vmstat", c"/sys/kernel/mm/quire/counters"];
/// The same in a message.
const PLACE: &str = "/proc/vmstat and /sys/kernel/mm/quire/counters";
/// Those that belong to a line, in this order, when they moved. Quire has all of them, other
/// kernels the first.
const SHOWN: [&str; 13] = [
    "pgfault",
    "account_updates",
    "account_atomics",
    "entry_writes",
    "pages_zeroed",
    "pages_copied",
    "cow_reused",
    "page_tables_allocated",
    "tlb_flush_range",
    "tlb_flush_space",
    "cpu_interrupts",
    "cpu_flush_requests",
    "lock_waits",
];
/// Of these, what a line has with several CPUs even if it did not move.
pub const OF_CPUS: [&str; 3] = ["cpu_interrupts", "cpu_flush_requests", "lock_waits"];
/// Room for one reading of both files.
const ROOM: usize = 64 * 1024;

/// What a piece of work cost.
pub struct Sample {
    /// Nanoseconds by the monotonic clock.
    pub ns: u64,
    /// What they are divided by; 0: the whole counts.
    pub pages: u64,
    /// How many VMAs or threads there were, where that is the question, or which of several
    /// processes did it.
    pub vmas: Option<usize>,
    /// How often each counter moved that this kernel has, in the order of [`SHOWN`].
    pub counters: Vec<(&'static str, u64)>,
}

impl Sample {
    /// How often a counter moved. One that was not read is an error.
    pub fn counter(&self, name: &str) -> Result<u64> {
        let found = self.counters.iter().find(|(known, _)| *known == name);
        found
            .map(|(_, value)| *value)
            .ok_or_else(|| wrong(&format!("there is no counter {name}")))
    }

    /// What it cost more than another one.
    pub fn beyond(mut self, other: &Sample) -> Sample {
        self.ns = self.ns.saturating_sub(other.ns);
        for ((_, value), (_, there)) in self.counters.iter_mut().zip(&other.counters) {
            *value = value.saturating_sub(*there);
        }
        self
    }

    /// Sends the time and the counters to another process, through a pipe.
    pub fn tell(&self, fd: i32) -> Result<()> {
        let figures = self.counters.iter().map(|(_, value)| *value);
        for figure in std::iter::once(self.ns).chain(figures) {
            file::write(fd, &figure.to_ne_bytes())?;
        }
        Ok(())
    }

    /// What another process tells, which has the same counters.
    pub fn hear(fd: i32, names: &[&'static str], pages: usize) -> Result<Sample> {
        let hear = || -> Result<u64> {
            let mut bytes = [0; 8];
            match file::read(fd, &mut bytes)? {
                8 => Ok(u64::from_ne_bytes(bytes)),
                _ => Err(wrong("a child ended without its figures")),
            }
        };
        let ns = hear()?;
        let counter = |name: &&'static str| Ok((*name, hear()?));
        Ok(Sample {
            ns,
            pages: pages as u64,
            vmas: None,
            counters: names.iter().map(counter).collect::<Result<_>>()?,
        })
    }
}

/// Takes samples. Its buffers are touched before, so that reading adds no page fault of its own.
pub struct Meter {
    /// How large the region of an operation is that says nothing else.
    pub pages: usize,
    /// Print a line before and after the work and wait for a key, for measurements from outside.
    pub watched: bool,
    /// What of [`SHOWN`] this kernel counts.
    pub names: Vec<&'static str>,
    before: Vec<u8>,
    after: Vec<u8>,
}

impl Meter {
    /// A meter, warm. An error where the kernel lacks a counter that it must have.
    pub fn new(pages: usize) -> Result<Meter> {
        let mut before = vec![1; ROOM];
        let length = read(&mut before);
        Ok(Meter {
            pages,
            watched: false,
            names: counted(&table(&before[..length]), on_quire())?,
            before,
            after: vec![1; ROOM],
        })
    }

    /// Does the work between two readings of the clock, and these between two readings of the
    /// counters.
    pub fn timed(&mut self, pages: usize, work: impl FnOnce() -> Result<()>) -> Result<Sample> {
        let before = read(&mut self.before);
        self.watch("begin");
        let start = time::now();
        let done = work();
        let ns = time::now() - start;
        self.watch("end");
        let after = read(&mut self.after);
        done?;
        let before = table(&self.before[..before]);
        let after = table(&self.after[..after]);
        let moved = |name: &&'static str| {
            let delta = |name| Ok(after.get(name)?.wrapping_sub(before.get(name)?));
            delta(name).map(|n| (*name, n)).map_err(Missing::say)
        };
        Ok(Sample {
            ns,
            pages: pages as u64,
            vmas: None,
            counters: self.names.iter().map(moved).collect::<Result<_>>()?,
        })
    }
}

impl Meter {
    fn watch(&self, what: &str) {
        if self.watched {
            println!("{{\"watch\":\"{what}\"}}");
            // Without a keyboard there is no measurement from outside.
            let _ = file::read(0, &mut [0; 16]);
        }
    }
}

/// Those of [`SHOWN`] that are in the table: all on Quire, the first everywhere.
fn counted(table: &Table, on_quire: bool) -> Result<Vec<&'static str>> {
    let must = if on_quire { SHOWN.len() } else { 1 };
    let missing = SHOWN[..must].iter().find_map(|name| table.get(name).err());
    match missing {
        Some(missing) => Err(missing.say()),
        None => Ok(SHOWN
            .into_iter()
            .filter(|name| table.get(name).is_ok())
            .collect()),
    }
}

/// The bytes of both files, one behind the other: how many.
fn read(buffer: &mut [u8]) -> usize {
    let mut used = 0;
    for name in FILES {
        let Ok(fd) = file::open_cstr(name, libc::O_RDONLY) else {
            continue;
        };
        while let Ok(length @ 1..) = file::read(fd, &mut buffer[used..]) {
            used += length;
        }
        // A descriptor that was only read from closes without news.
        let _ = file::close(fd);
    }
    used
}

fn table(bytes: &[u8]) -> Table {
    Table::parse(PLACE, &String::from_utf8_lossy(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quire_has_every_counter_that_is_shown() {
        let all: String = SHOWN.iter().map(|name| format!("{name} 1\n")).collect();
        let all = table(all.as_bytes());
        assert_eq!(counted(&all, true), Ok(SHOWN.to_vec()));
        let few = table(b"pgfault 1\nnr_free_pages 2\n");
        assert_eq!(counted(&few, false), Ok(vec!["pgfault"]));
        assert!(counted(&few, true).is_err());
        assert!(counted(&table(b""), false).is_err());
    }

    #[test]
    fn a_counter_that_was_not_read_is_an_error() {
        let sample = Sample {
            ns: 1,
            pages: 1,
            vmas: None,
            counters: vec![("pgfault", 0)],
        };
        assert_eq!(sample.counter("pgfault"), Ok(0));
        assert!(sample.counter("account_updates").is_err());
    }
}
