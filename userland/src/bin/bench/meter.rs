//! The clock and the kernel's counters around a piece of work.
use std::ffi::CStr;
use userland::counters::{self, Table};
use userland::sys::{Result, file, time};

/// Where counters are; the second only on Quire.
const FILES: [&CStr; 2] = [c"/proc/vmstat", c"/sys/kernel/mm/quire/counters"];
/// Those that belong to a line, in this order, when they moved.
const SHOWN: [&str; 10] = [
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
];
/// Room for one reading of both files.
const ROOM: usize = 64 * 1024;

/// What a piece of work cost.
pub struct Sample {
    /// Nanoseconds by the monotonic clock.
    pub ns: u64,
    /// What they are divided by; 0: the whole counts.
    pub pages: u64,
    /// How many VMAs there were, where that is the question, or which of several processes did it.
    pub vmas: Option<usize>,
    /// Counters that moved.
    pub counters: Vec<(&'static str, u64)>,
}

impl Sample {
    /// How often a counter moved.
    pub fn counter(&self, name: &str) -> u64 {
        let found = self.counters.iter().find(|(known, _)| *known == name);
        found.map_or(0, |(_, value)| *value)
    }
}

/// Takes samples. Its buffers are touched before, so that reading adds no page fault of its own.
pub struct Meter {
    /// How large the region of an operation is that says nothing else.
    pub pages: usize,
    /// Around the work, tell whoever watches from outside and wait for a key.
    pub watched: bool,
    before: Vec<u8>,
    after: Vec<u8>,
}

impl Meter {
    /// A meter, warm.
    pub fn new(pages: usize) -> Meter {
        Meter {
            pages,
            watched: false,
            before: vec![1; ROOM],
            after: vec![1; ROOM],
        }
    }

    /// Does the work between two readings of the clock, and these between two readings of the counters.
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
        let moved = |name: &'static str| {
            let delta = after.get(name)?.wrapping_sub(*before.get(name)?);
            (delta > 0).then_some((name, delta))
        };
        Ok(Sample {
            ns,
            pages: pages as u64,
            vmas: None,
            counters: SHOWN.into_iter().filter_map(moved).collect(),
        })
    }
}

impl Meter {
    fn watch(&self, what: &str) {
        if self.watched {
            println!("{{\"watch\":\"{what}\"}}");
            // Without a keyboard nobody watches.
            let _ = file::read(0, &mut [0; 16]);
        }
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
    counters::parse(&String::from_utf8_lossy(bytes))
}
