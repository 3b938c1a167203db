//! Lab 8: broken solutions. Each stands between a right one and its batch, and passes on something
//! else than it was told: so they hold nothing of the answer themselves.

use super::{Batch, Broken, Gather, Memory};
use crate::Mutant;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub const ALL: &[Mutant] = &[
    ("FreeFirst", "gives memory back before it flushes"),
    ("OnlyFreed", "does not flush where no memory is given back"),
    (
        "LastOnly",
        "flushes what was changed last, not what was before",
    ),
    ("FirstPage", "flushes the first page of a range"),
    (
        "MissesOne",
        "does not tell one CPU of four, which the seed picks",
    ),
    ("RunningOnly", "tells those CPUs that run in the space now"),
    (
        "EarlySet",
        "tells the CPUs that ran in the space when the first entry was changed",
    ),
    ("NoEnd", "does not notice that there is no room"),
    ("OneByOne", "flushes after each change"),
    ("WholeSpace", "drops all of the space for a single page"),
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
    /// Whether a right solution is told of a change.
    gathers: bool,
}

impl Between<'_> {
    fn told(&self, cpus: u64) -> u64 {
        match self.of.name {
            "MissesOne" => cpus & !(1 << (self.of.seed % 4)),
            "EarlySet" => EARLY.load(Relaxed),
            _ => cpus,
        }
    }
    /// Whether nothing is to be dropped.
    fn left_out(&mut self) -> bool {
        if self.of.is("FreeFirst") && self.batch.kept() > 0 {
            self.batch.free();
        }
        self.of.is("OnlyFreed") && self.batch.kept() == 0
    }
}

impl Batch for Between<'_> {
    fn owed(&self) -> Range<u64> {
        match self.of.is("LastOnly") && self.gathers {
            true => 0..0,
            false => self.batch.owed(),
        }
    }
    fn owe(&mut self, pages: Range<u64>) {
        self.batch.owe(pages);
    }
    fn kept(&self) -> usize {
        match self.of.is("NoEnd") && self.gathers {
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
        match self.of.is("RunningOnly") {
            true => self.batch.running(),
            false => self.batch.ran(),
        }
    }
    fn flush(&mut self, cpus: u64, pages: Range<u64>) {
        if self.left_out() {
            return;
        }
        let cpus = self.told(cpus);
        match self.of.name {
            "FirstPage" => self.batch.flush(cpus, pages.start..pages.start + 1),
            "WholeSpace" => self.batch.flush_all(cpus),
            _ => self.batch.flush(cpus, pages),
        }
    }
    fn flush_all(&mut self, cpus: u64) {
        if self.left_out() {
            return;
        }
        let cpus = self.told(cpus);
        match self.of.name {
            "FirstPage" => {
                let first = self.batch.owed().start;
                self.batch.flush(cpus, first..first + 1);
            }
            _ => self.batch.flush_all(cpus),
        }
    }
}

impl Gather for Broken {
    fn gather(&self, batch: &mut dyn Batch, pages: Range<u64>, memory: Option<Memory>) {
        if EARLY.load(Relaxed) == 0 {
            EARLY.store(batch.ran(), Relaxed);
        }
        let (of, gathers) = (self, true);
        self.right
            .gather(&mut Between { batch, of, gathers }, pages, memory);
        if self.is("OneByOne") {
            self.right.finish(batch);
        }
    }
    fn finish(&self, batch: &mut dyn Batch) {
        let (of, gathers) = (self, false);
        self.right.finish(&mut Between { batch, of, gathers });
        EARLY.store(0, Relaxed);
    }
}
