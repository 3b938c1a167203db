//! What the kernel checks of a solution. A wrong step ends it, in words: "lab: ...".

use super::{Batch, CAPACITY, Gather, Memory};
use core::ops::Range;

/// What a batch owes, by the kernel's own account.
#[derive(Clone, Debug, Default)]
pub struct Owed {
    /// Pages that were changed since they were last flushed everywhere.
    pages: Range<u64>,
    /// CPUs that have dropped them since.
    told: u64,
    /// Pages that the solution has put down.
    noted: Range<u64>,
}

impl Owed {
    /// Whether nothing is owed.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty() && self.noted.is_empty()
    }
    /// What [`Batch::owed`] says.
    pub fn noted(&self) -> Range<u64> {
        self.noted.clone()
    }
    /// [`Batch::owe`].
    pub fn note(&mut self, pages: Range<u64>) {
        self.noted = pages;
    }
}

/// A batch, with what the kernel knows of it.
pub trait Kept: Batch {
    /// What it owes.
    fn account(&mut self) -> &mut Owed;
}

/// Tells a solution of a change.
pub fn gather(
    solution: &dyn Gather,
    batch: &mut dyn Kept,
    pages: Range<u64>,
    memory: Option<Memory>,
) {
    if !pages.is_empty() {
        let owed = batch.account();
        owed.pages = match owed.pages.is_empty() {
            true => pages.clone(),
            false => owed.pages.start.min(pages.start)..owed.pages.end.max(pages.end),
        };
        owed.told = 0;
    }
    let mut watched = Watched {
        batch,
        verb: "gather",
        memory,
    };
    solution.gather(&mut watched, pages, memory);
    if let Some(Memory(number)) = watched.memory {
        panic!("lab: gather: memory {number:#x} is neither kept nor given back: it is lost");
    }
}

/// Has a solution do what is owed.
pub fn finish(solution: &dyn Gather, batch: &mut dyn Kept) {
    let mut watched = Watched {
        batch,
        verb: "finish",
        memory: None,
    };
    solution.finish(&mut watched);
    watched.flushed("at the end");
    let kept = batch.kept();
    if kept > 0 {
        panic!("lab: finish: {kept} pieces of memory are not given back");
    }
}

/// A batch that a solution has.
struct Watched<'a> {
    batch: &'a mut dyn Kept,
    verb: &'static str,
    /// What is to be kept.
    memory: Option<Memory>,
}

impl Watched<'_> {
    /// Panics unless no TLB can hold anything any more that was changed.
    fn flushed(&mut self, when: &str) {
        let ran = self.batch.ran();
        let (verb, owed) = (self.verb, self.batch.account());
        if !owed.pages.is_empty() {
            let (from, to) = (owed.pages.start * 4096, owed.pages.end * 4096);
            let cpu = (ran & !owed.told).trailing_zeros();
            panic!(
                "lab: {verb}: {when} the TLB of CPU {cpu} may still hold what was changed in {from:#x} to {to:#x}"
            );
        }
    }
    /// Some CPUs have dropped these pages, or all of the space.
    fn told(&mut self, cpus: u64, pages: Option<&Range<u64>>) {
        let ran = self.batch.ran();
        let owed = self.batch.account();
        let covers =
            |pages: &Range<u64>| pages.start <= owed.pages.start && owed.pages.end <= pages.end;
        if pages.is_none_or(covers) {
            owed.told |= cpus;
        }
        if ran & !owed.told == 0 {
            owed.pages = 0..0;
        }
    }
}

impl Batch for Watched<'_> {
    fn owed(&self) -> Range<u64> {
        self.batch.owed()
    }
    fn owe(&mut self, pages: Range<u64>) {
        self.batch.owe(pages);
    }
    fn kept(&self) -> usize {
        self.batch.kept()
    }
    fn keep(&mut self, memory: Memory) {
        let verb = self.verb;
        if self.memory != Some(memory) {
            panic!("lab: {verb}: keep: {memory:?} is not what was unmapped now");
        }
        if self.batch.kept() == CAPACITY {
            panic!("lab: {verb}: keep: {CAPACITY} pieces of memory are kept, there is no room");
        }
        self.memory = None;
        self.batch.keep(memory);
    }
    fn free(&mut self) {
        self.flushed("before memory is given back");
        self.batch.free();
    }
    fn running(&self) -> u64 {
        self.batch.running()
    }
    fn ran(&self) -> u64 {
        self.batch.ran()
    }
    fn flush(&mut self, cpus: u64, pages: Range<u64>) {
        self.batch.flush(cpus, pages.clone());
        self.told(cpus, Some(&pages));
    }
    fn flush_all(&mut self, cpus: u64) {
        self.batch.flush_all(cpus);
        self.told(cpus, None);
    }
}
