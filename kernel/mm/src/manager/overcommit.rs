//! How much memory may be promised (proc(5) and Documentation/mm/overcommit-accounting): what
//! counts is what private writable mappings and shared anonymous memory may come to, and the pages
//! that files in memory have.

use super::Mm;
use crate::addr::PAGE_SHIFT;
use crate::arch::Machine;
use crate::frame::Kind;
use crate::stat::Event;
use crate::sync::{AtomicU64, Ordering};

/// How many VMAs an address space may have unless told otherwise (Linux's default of
/// vm.max_map_count; one mmap more is let through, as there).
pub const MAX_VMAS: usize = 65530;

/// vm.overcommit_memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Policy {
    /// One request for more than all memory is refused.
    Heuristic = 0,
    /// None is.
    Always = 1,
    /// All promises together stay within the limit ([`Mm::commit_limit`]).
    Never = 2,
}

/// The settings below /proc/sys/vm that mappings are measured by. All are read and written as
/// words that stand for themselves.
pub struct Overcommit {
    policy: AtomicU64,
    ratio: AtomicU64,
    kbytes: AtomicU64,
    areas: AtomicU64,
}

impl Default for Overcommit {
    /// Linux's defaults.
    fn default() -> Self {
        Overcommit {
            policy: AtomicU64::new(Policy::Heuristic as u64),
            ratio: AtomicU64::new(50),
            kbytes: AtomicU64::new(0),
            areas: AtomicU64::new(MAX_VMAS as u64),
        }
    }
}

impl Overcommit {
    /// vm.overcommit_memory.
    #[inline]
    pub fn policy(&self) -> Policy {
        match self.policy.load(Ordering::Relaxed) {
            1 => Policy::Always,
            2 => Policy::Never,
            _ => Policy::Heuristic,
        }
    }
    /// Changes it for later mappings; what was promised stays.
    pub fn set_policy(&self, policy: Policy) {
        self.policy.store(policy as u64, Ordering::Relaxed);
    }
    /// vm.overcommit_ratio, in percent; 0 while [`Self::kbytes`] counts.
    pub fn ratio(&self) -> u64 {
        self.ratio.load(Ordering::Relaxed)
    }
    /// Makes the limit a part of memory.
    pub fn set_ratio(&self, percent: u64) {
        self.ratio.store(percent, Ordering::Relaxed);
        self.kbytes.store(0, Ordering::Relaxed);
    }
    /// vm.overcommit_kbytes; 0 while [`Self::ratio`] counts.
    pub fn kbytes(&self) -> u64 {
        self.kbytes.load(Ordering::Relaxed)
    }
    /// Makes the limit this number.
    pub fn set_kbytes(&self, kbytes: u64) {
        self.kbytes.store(kbytes, Ordering::Relaxed);
        self.ratio.store(0, Ordering::Relaxed);
    }
    /// vm.max_map_count: how many VMAs a space may have.
    #[inline]
    pub fn areas(&self) -> usize {
        self.areas.load(Ordering::Relaxed) as usize
    }
    /// Changes it for later calls; a space that has more keeps them.
    pub fn set_areas(&self, most: usize) {
        self.areas.store(most as u64, Ordering::Relaxed);
    }
}

impl<M: Machine> Mm<M> {
    /// The settings that mappings are measured by.
    #[inline]
    pub fn overcommit(&self) -> &Overcommit {
        &self.overcommit
    }
    /// The most pages that may be promised with [`Policy::Never`] (CommitLimit): a part of the
    /// memory that is no huge page, and all swap slots.
    pub fn commit_limit(&self) -> u64 {
        let settings = &self.overcommit;
        let memory = match settings.kbytes() {
            0 => {
                let memory = self.total_frames().saturating_sub(self.counts().hugetlb);
                memory.saturating_mul(settings.ratio()) / 100
            }
            kbytes => kbytes >> (PAGE_SHIFT - 10),
        };
        memory + self.slots().total()
    }
    /// Pages that are promised (Committed_AS).
    pub fn committed(&self) -> u64 {
        let objects = self.allocator.counts().used[Kind::Object as usize];
        (self.charged() + objects as i64).max(0) as u64
    }
    /// Those that are no pages of objects; exact while nothing changes.
    pub(crate) fn charged(&self) -> i64 {
        self.stats.charged()
    }
    /// Whether `more` pages may be promised, beside `open` that are and do not count yet; a system
    /// call that is refused changes nothing.
    pub(crate) fn may_promise(&self, more: u64, open: i64) -> bool {
        match self.overcommit.policy() {
            Policy::Heuristic => more <= self.total_frames() + self.slots().total(),
            Policy::Always => true,
            Policy::Never => self.has_promise_left(more, open),
        }
    }
    #[cold]
    #[inline(never)]
    fn has_promise_left(&self, more: u64, open: i64) -> bool {
        let promised = self.committed().saturating_add_signed(open);
        promised.saturating_add(more) <= self.commit_limit()
    }
    /// Counts `pages` more that are promised and are no pages of objects; wraps around, for
    /// subtraction.
    #[inline]
    pub(crate) fn charge(&self, pages: u64) {
        self.count(Event::Charged, pages);
    }
}
