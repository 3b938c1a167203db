//! The clock and the kernel's counters around a piece of work.
use crate::observer::{Cell, Observer};
use std::ffi::CStr;
use userland::counters::{Missing, Table, on_quire};
use userland::marks;
use userland::measuring::wrong;
use userland::sys::{Result, file, time};

/// Where counters are; the second only on Quire.
const FILES: [&CStr; 2] = [c"/proc/vmstat", c"/sys/kernel/mm/quire/counters"];
/// The same in a message.
const PLACE: &str = "/proc/vmstat and /sys/kernel/mm/quire/counters";
/// Where the waits for locks are: a line for each rank.
const LOCKS: &CStr = c"/sys/kernel/mm/quire/contention";
/// Those that belong to a line, in this order, when they moved. Quire has all of them, other
/// kernels the first.
const SHOWN: [&str; 17] = [
    "pgfault",
    "pswpout",
    "pswpin",
    "account_updates",
    "account_atomics",
    "entry_writes",
    "pages_zeroed",
    "pages_copied",
    "cow_reused",
    "page_tables_allocated",
    "page_tables_unlinked",
    "fault_retried",
    "tlb_flush_range",
    "tlb_flush_space",
    "cpu_interrupts",
    "cpu_flush_requests",
    "lock_waits",
];
/// Of these, what a line has with several CPUs even if it did not move; and the waits for locks.
const OF_CPUS: [&str; 5] = [
    "cpu_interrupts",
    "cpu_flush_requests",
    "fault_retried",
    "page_tables_unlinked",
    "lock_waits",
];
/// What the counters of the locks of a rank begin with: how often one was not free, and looks at it
/// until it was.
const OF_RANK: [&str; 2] = ["lock_waits_", "lock_looks_"];

/// Whether a line has this counter with several CPUs even if it did not move.
pub fn is_of_cpus(name: &str) -> bool {
    OF_CPUS.contains(&name) || OF_RANK.iter().any(|first| name.starts_with(first))
}

/// Room for one reading of all files.
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
    /// How often each counter moved that this kernel has, in the order of [`SHOWN`]; then those of
    /// locks.
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
}

/// Takes samples. Its buffers are touched before, so that reading adds no page fault of its own.
pub struct Meter {
    /// How large the region of an operation is that says nothing else.
    pub pages: usize,
    /// Whether large folios are to be mapped by PTEs before they are measured.
    pub by_ptes: bool,
    /// What it says of the work, when it is not quiet.
    pub observer: Observer,
    /// What is measured next.
    pub cell: Cell,
    quiet: bool,
    /// What of [`SHOWN`] this kernel counts, and the waits for locks that it has.
    pub names: Vec<&'static str>,
    before: Vec<u8>,
    after: Vec<u8>,
}

impl Meter {
    /// A meter, warm. An error where the kernel lacks a counter that it must have.
    pub fn new(pages: usize) -> Result<Meter> {
        let mut before = vec![1; ROOM];
        let reading = read(&mut before);
        let mut names = counted(&reading.table(&before), on_quire())?;
        // As long as the program runs, like the others.
        let locks = reading.locks(&before).into_iter();
        names.extend(locks.map(|(name, _)| &*name.leak()));
        Ok(Meter {
            pages,
            by_ptes: false,
            observer: Observer::default(),
            cell: Cell::default(),
            quiet: false,
            names,
            before,
            after: vec![1; ROOM],
        })
    }

    /// Does the work between two readings of the clock, and these between two readings of the
    /// counters.
    pub fn timed(&mut self, pages: usize, work: impl FnOnce() -> Result<()>) -> Result<Sample> {
        let name = match self.observer.marks {
            Some(_) => self.cell.mark(),
            None => String::new(),
        };
        let before = read(&mut self.before);
        let observer = &self.observer;
        let (done, ns) = if self.quiet || !observer.keys && observer.marks.is_none() {
            clocked(work)
        } else {
            observer.watch("begin");
            let clocked = clocked(|| marks::around(observer.marks.as_ref(), &name, work));
            observer.watch("end");
            clocked
        };
        let after = read(&mut self.after);
        done?;
        let before = before.all(&self.before);
        let after = after.all(&self.after);
        let moved = |name: &str| {
            let delta = || Ok(after.get(name)?.wrapping_sub(before.get(name)?));
            delta().map_err(Missing::say)
        };
        self.sample(ns, pages, moved)
    }

    /// A sample of what is measured next, with each counter from `moved`.
    fn sample(&self, ns: u64, pages: usize, moved: impl Fn(&str) -> Result<u64>) -> Result<Sample> {
        let counters = self.names.iter().map(|name| Ok((*name, moved(name)?)));
        Ok(Sample {
            ns,
            pages: pages as u64,
            vmas: self.cell.variant,
            counters: counters.collect::<Result<_>>()?,
        })
    }

    /// Measures something that is no result of its own: nothing is said of it meanwhile.
    pub fn quietly<T>(&mut self, work: impl FnOnce(&mut Meter) -> T) -> T {
        let before = std::mem::replace(&mut self.quiet, true);
        let done = work(self);
        self.quiet = before;
        done
    }

    /// The buffers and the stack become this process's own.
    pub fn settle(&mut self) -> Result<()> {
        self.quietly(|meter| (0..2).try_for_each(|_| meter.timed(0, || Ok(())).map(drop)))
    }

    /// A sample that another process tells, which has the same counters.
    pub fn hear(&self, fd: i32, pages: usize) -> Result<Sample> {
        let hear = || -> Result<u64> {
            let mut bytes = [0; 8];
            match file::read(fd, &mut bytes)? {
                8 => Ok(u64::from_ne_bytes(bytes)),
                _ => Err(wrong("a child ended without its figures")),
            }
        };
        self.sample(hear()?, pages, |_| hear())
    }
}

/// Does the work and says how many nanoseconds that took.
#[inline]
fn clocked(work: impl FnOnce() -> Result<()>) -> (Result<()>, u64) {
    let start = time::now();
    let done = work();
    (done, time::now() - start)
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

/// Where in a buffer the files are, one behind the other.
#[derive(Clone, Copy)]
struct Reading {
    /// The end of [`FILES`].
    counters: usize,
    /// The end of [`LOCKS`].
    locks: usize,
}

impl Reading {
    fn table(self, buffer: &[u8]) -> Table {
        Table::parse(PLACE, &String::from_utf8_lossy(&buffer[..self.counters]))
    }
    /// The counters of each rank, by name.
    fn locks(self, buffer: &[u8]) -> Vec<(String, u64)> {
        of_ranks(&String::from_utf8_lossy(&buffer[self.counters..self.locks]))
    }
    fn all(self, buffer: &[u8]) -> Table {
        let mut table = self.table(buffer);
        table.extend(self.locks(buffer));
        table
    }
}

/// The counters of each rank from lines of a name and two numbers or more.
fn of_ranks(text: &str) -> Vec<(String, u64)> {
    let mut counters = Vec::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let Some(rank) = words.next() else { continue };
        for (first, word) in OF_RANK.iter().zip(words) {
            if let Ok(value) = word.parse() {
                counters.push((format!("{first}{rank}"), value));
            }
        }
    }
    counters
}

/// Reads all files, one behind the other.
fn read(buffer: &mut [u8]) -> Reading {
    let mut used = 0;
    let mut add = |name| {
        let Ok(fd) = file::open_cstr(name, libc::O_RDONLY) else {
            return used;
        };
        while let Ok(length @ 1..) = file::read(fd, &mut buffer[used..]) {
            used += length;
        }
        // A descriptor that was only read from closes without news.
        let _ = file::close(fd);
        used
    };
    let [_, counters] = FILES.map(&mut add);
    Reading {
        counters,
        locks: add(LOCKS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quire_has_every_counter_that_is_shown() {
        let all: String = SHOWN.iter().map(|name| format!("{name} 1\n")).collect();
        let table = |text: &str| Table::parse(PLACE, text);
        let all = table(&all);
        assert_eq!(counted(&all, true), Ok(SHOWN.to_vec()));
        let few = table("pgfault 1\nnr_free_pages 2\n");
        assert_eq!(counted(&few, false), Ok(vec!["pgfault"]));
        assert!(counted(&few, true).is_err());
        assert!(counted(&table(""), false).is_err());
    }

    #[test]
    fn waits_by_rank() {
        let counters = of_ranks("kernel 3 40 500\nzone 1 2\n\n");
        let found: Vec<_> = counters.iter().map(|(name, n)| (&**name, *n)).collect();
        assert_eq!(
            found,
            [
                ("lock_waits_kernel", 3),
                ("lock_looks_kernel", 40),
                ("lock_waits_zone", 1),
                ("lock_looks_zone", 2)
            ]
        );
        assert!(found.iter().all(|(name, _)| is_of_cpus(name)));
        assert!(is_of_cpus("fault_retried") && !is_of_cpus("pgfault"));
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
