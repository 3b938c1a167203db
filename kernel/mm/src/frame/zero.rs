//! The huge zero page: 2 MiB of zeros that read faults share by PMD leaves, there while a leaf maps it.

use super::meta::Kind;
use super::zone::For;
use super::{Mm, OutOfMemory};
use crate::addr::Pfn;
use crate::arch::Machine;
use crate::stat::Event;
use crate::sync::{AtomicU64, Lock, Ordering, rank};
use crate::thp::PMD_ORDER;

/// No frame.
const NONE: u64 = u64::MAX;

/// The page and how many leaves map it.
pub(super) struct HugeZero {
    pfn: AtomicU64,
    leaves: Lock<u64, { rank::HUGE_ZERO }>,
}

impl HugeZero {
    pub(super) fn new() -> Self {
        HugeZero {
            pfn: AtomicU64::new(NONE),
            leaves: Lock::new(0),
        }
    }
}

impl<M: Machine> Mm<M> {
    /// The huge zero page, or a frame number that no frame has. Who sees it mapped may rely on the answer.
    #[inline]
    pub fn huge_zero_page(&self) -> Pfn {
        // Relaxed: it changes only while no leaf maps it.
        Pfn(self.huge_zero.pfn.load(Ordering::Relaxed))
    }
    /// A reference to the huge zero page for a new leaf; the first one allocates it.
    pub(crate) fn get_huge_zero_page(&self) -> Result<Pfn, OutOfMemory> {
        let mut leaves = self.huge_zero.leaves.lock();
        if *leaves == 0 {
            let pfn = self.alloc(PMD_ORDER, Kind::Kernel, For::User)?;
            self.zero(pfn, PMD_ORDER);
            self.count(Event::HugeZeroAlloc, 1);
            self.huge_zero.pfn.store(pfn.0, Ordering::Relaxed);
        }
        *leaves += 1;
        Ok(self.huge_zero_page())
    }
    /// A reference for one more leaf, by who holds one.
    pub(crate) fn share_huge_zero_page(&self) {
        *self.huge_zero.leaves.lock() += 1;
    }
    /// Drops the references of `n` leaves that are gone and flushed.
    pub(crate) fn put_huge_zero_page(&self, n: u64) {
        let mut leaves = self.huge_zero.leaves.lock();
        *leaves -= n;
        if *leaves == 0 {
            let pfn = self.huge_zero_page();
            self.huge_zero.pfn.store(NONE, Ordering::Relaxed);
            assert!(self.frames().get(pfn).put_ref(), "it has one owner");
            self.free(&[pfn]);
        }
    }
}
