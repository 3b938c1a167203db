//! The huge zero page: 2 MiB of zeros that read faults share by PMD leaves. It is there while a
//! leaf maps it, and longer while memory is not short: it need not be zeroed anew for the next one.
//! While no leaf maps it, its frames count as free, as those in a CPU's list do: an allocation that
//! finds no other frame frees it.

use super::{Mm, Result};
use crate::addr::Pfn;
use crate::arch::Machine;
use crate::frame::meta::Kind;
use crate::frame::zone::Reserve;
use crate::stat::Event;
use crate::sync::{AtomicBool, AtomicU64, Lock, Ordering, rank};
use crate::thp::PMD_ORDER;

/// No frame.
const NONE: u64 = u64::MAX;

/// The page and how many leaves map it.
pub(super) struct HugeZero {
    pfn: AtomicU64,
    /// Whether it is there and no leaf maps it; written under the lock.
    idle: AtomicBool,
    leaves: Lock<u64, { rank::HUGE_ZERO }>,
}

impl HugeZero {
    pub(super) fn new() -> Self {
        HugeZero {
            pfn: AtomicU64::new(NONE),
            idle: AtomicBool::new(false),
            leaves: Lock::new(0),
        }
    }
}

impl<M: Machine> Mm<M> {
    /// The huge zero page, or a frame number that no frame has. Stable while a leaf maps it.
    #[inline]
    pub fn huge_zero_page(&self) -> Pfn {
        // Relaxed: it changes only while no leaf maps it.
        Pfn(self.huge_zero.pfn.load(Ordering::Relaxed))
    }
    /// A reference to the huge zero page for a new leaf; allocates it if it is not there.
    pub(crate) fn get_huge_zero_page(&self) -> Result<Pfn> {
        if let Some(pfn) = self.take_huge_zero_page(None) {
            return Ok(pfn);
        }
        // Without the lock, for which all CPUs would wait meanwhile.
        let fresh = self.alloc(PMD_ORDER, Kind::Kernel, Reserve::User)?;
        self.zero(fresh, PMD_ORDER);
        let taken = self.take_huge_zero_page(Some(fresh)).unwrap_or(fresh);
        if taken == fresh {
            self.count(Event::HugeZeroAlloc, 1);
        } else {
            self.free_zeros(fresh);
        }
        Ok(taken)
    }
    /// A reference to the huge zero page if it is there, or to `fresh`, which becomes it.
    fn take_huge_zero_page(&self, fresh: Option<Pfn>) -> Option<Pfn> {
        let mut leaves = self.huge_zero.leaves.lock();
        if self.huge_zero_page() == Pfn(NONE) {
            self.huge_zero.pfn.store(fresh?.0, Ordering::Relaxed);
        }
        self.huge_zero.idle.store(false, Ordering::Relaxed);
        *leaves += 1;
        Some(self.huge_zero_page())
    }
    /// Frees 2 MiB of zeros that no leaf maps.
    fn free_zeros(&self, pfn: Pfn) {
        assert!(self.frames().get(pfn).put_ref(), "it has one owner");
        self.free(&[pfn]);
    }
    /// A reference for one more leaf; the caller holds one.
    pub(crate) fn share_huge_zero_page(&self) {
        *self.huge_zero.leaves.lock() += 1;
    }
    /// Drops the references of `n` leaves that are gone and flushed.
    pub(crate) fn put_huge_zero_page(&self, n: u64) {
        let mut leaves = self.huge_zero.leaves.lock();
        *leaves -= n;
        if *leaves == 0 {
            self.huge_zero.idle.store(true, Ordering::Relaxed);
            drop(leaves);
            if self.allocator().is_tight() {
                self.free_idle_zeros();
            }
        }
    }
    /// Frees the huge zero page if no leaf maps it; returns the number of frames.
    pub fn free_idle_zeros(&self) -> u64 {
        // Fast path: usually there is none, and the caller may be its allocation, with the lock
        // held. Relaxed: a page that becomes idle just now is for the next call.
        if self.idle_zeros() == 0 {
            return 0;
        }
        let leaves = self.huge_zero.leaves.lock();
        if !self.huge_zero.idle.load(Ordering::Relaxed) {
            return 0;
        }
        let pfn = self.huge_zero_page();
        self.huge_zero.idle.store(false, Ordering::Relaxed);
        self.huge_zero.pfn.store(NONE, Ordering::Relaxed);
        drop(leaves);
        self.free_zeros(pfn);
        PMD_ORDER.pages()
    }
    /// Frames of the huge zero page while no leaf maps it.
    pub(super) fn idle_zeros(&self) -> u64 {
        match self.huge_zero.idle.load(Ordering::Relaxed) {
            true => PMD_ORDER.pages(),
            false => 0,
        }
    }
}
