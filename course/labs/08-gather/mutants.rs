//! Lab 8: broken solutions. Each stands between a right one and its batch, and passes on something
//! else than it was told: so they hold nothing of the answer themselves.

use super::{Batch, Broken, Gather, Memory};
use crate::Mutant;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub const ALL: &[Mutant] = &[
    ("FreeFirst", "gives memory back before it flushes"),
    (
        "OnlyFreed",
        "does not flush where no memory is given back, if no other CPU ran in the space",
    ),
    (
        "LastOnly",
        "forgets what was changed before, if it lies behind what is changed now",
    ),
    (
        "FirstPart",
        "does not flush a change that does not lie beside what was changed before",
    ),
    (
        "MissesOne",
        "does not tell one of the CPUs 8 to 63, which the seed picks",
    ),
    (
        "RunningOnly",
        "tells only those CPUs that run in the space now, where all of it is dropped",
    ),
    (
        "EarlySet",
        "tells the CPUs that ran in the space when the first entry was changed",
    ),
    ("NoEnd", "does not notice that there is no room"),
    (
        "OneByOne",
        "flushes as soon as a change does not lie beside what was changed before",
    ),
    (
        "WholeSpace",
        "drops all of the space for a few pages, if no memory is given back",
    ),
];

impl Broken {
    fn is(&self, name: &str) -> bool {
        self.name == name
    }
}

/// CPUs that were seen when a batch began; only one test runs at a time.
static EARLY: AtomicU64 = AtomicU64::new(0);

/// What stands between.
struct Between<'a> {
    batch: &'a mut dyn Batch,
    of: &'a Broken,
    /// Of which pages a right solution is told in `gather`.
    gathers: Option<Range<u64>>,
}

impl Between<'_> {
    fn told(&self, cpus: u64) -> u64 {
        match self.of.name {
            "MissesOne" => cpus & !(1 << (8 + self.of.seed % 56)),
            "EarlySet" => EARLY.load(Relaxed),
            _ => cpus,
        }
    }
    /// Whether nothing is to be dropped.
    fn left_out(&mut self) -> bool {
        if self.of.is("FreeFirst") && self.batch.kept() > 0 {
            self.batch.free();
        }
        self.of.is("OnlyFreed") && self.batch.kept() == 0 && self.batch.ran().count_ones() == 1
    }
}

impl Batch for Between<'_> {
    fn owed(&self) -> Range<u64> {
        let owed = self.batch.owed();
        match &self.gathers {
            Some(pages) if self.of.is("LastOnly") && !pages.is_empty() => {
                owed.start..owed.end.min(pages.end)
            }
            _ => owed,
        }
    }
    fn owe(&mut self, pages: Range<u64>) {
        self.batch.owe(pages);
    }
    fn kept(&self) -> usize {
        match self.of.is("NoEnd") && self.gathers.is_some() {
            true => 0,
            false => self.batch.kept(),
        }
    }
    fn keep(&mut self, memory: Memory) {
        self.batch.keep(memory);
    }
    fn free(&mut self) {
        if self.batch.kept() > 0 {
            self.batch.free();
        }
    }
    fn running(&self) -> u64 {
        self.batch.running()
    }
    fn ran(&self) -> u64 {
        self.batch.ran()
    }
    fn flush(&mut self, cpus: u64, pages: Range<u64>) {
        if self.left_out() {
            return;
        }
        let cpus = self.told(cpus);
        match self.of.is("WholeSpace") && self.batch.kept() == 0 {
            true => self.batch.flush_all(cpus),
            false => self.batch.flush(cpus, pages),
        }
    }
    fn flush_all(&mut self, cpus: u64) {
        if self.left_out() {
            return;
        }
        let cpus = match self.of.is("RunningOnly") {
            true => self.batch.running(),
            false => self.told(cpus),
        };
        self.batch.flush_all(cpus);
    }
}

impl Gather for Broken {
    fn gather(&self, batch: &mut dyn Batch, mut pages: Range<u64>, memory: Option<Memory>) {
        if EARLY.load(Relaxed) == 0 {
            EARLY.store(batch.ran(), Relaxed);
        }
        let owed = batch.owed();
        let gap = pages.start > owed.end || pages.end < owed.start;
        if gap && !owed.is_empty() && !pages.is_empty() {
            match self.name {
                "FirstPart" => pages = 0..0,
                "OneByOne" => self.right.finish(batch),
                _ => {}
            }
        }
        let (of, gathers) = (self, Some(pages.clone()));
        self.right
            .gather(&mut Between { batch, of, gathers }, pages, memory);
    }
    fn finish(&self, batch: &mut dyn Batch) {
        let (of, gathers) = (self, None);
        self.right.finish(&mut Between { batch, of, gathers });
        EARLY.store(0, Relaxed);
    }
}
