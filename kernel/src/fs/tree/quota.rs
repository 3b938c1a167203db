//! Quota of a file system in memory: tmpfs(5)'s size and nr_inodes.

use crate::base::errno::{Errno, Result};
use crate::base::machine::mm;
use crate::fs::room;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use mm::addr::Order;
use mm::object::PagePool;

/// Limits that all files of a file system share.
pub struct Quota {
    /// The order of the pages of its files, if they are huge ones.
    huge: Option<Order>,
    pages: Arc<PagePool>,
    most_inodes: u64,
    /// Relaxed: no other data depends on the count.
    inodes: AtomicU64,
}

/// One inode, charged to a quota until it is dropped.
pub struct InodeCharge(Arc<Quota>);

impl Drop for InodeCharge {
    fn drop(&mut self) {
        self.0.inodes.fetch_sub(1, Relaxed);
    }
}

impl Quota {
    /// Memory itself is the limit.
    pub fn unlimited() -> Arc<Quota> {
        Quota::new(u64::MAX)
    }

    /// At most `limit` pages, and as many inodes as half of memory has pages: they live on the
    /// kernel's heap, which a killed program does not empty.
    pub fn new(limit: u64) -> Arc<Quota> {
        Quota::with_inodes(limit, mm().total_frames() / 2)
    }

    /// At most `limit` pages and `most_inodes` inodes.
    pub fn with_inodes(limit: u64, most_inodes: u64) -> Arc<Quota> {
        Quota::with(None, limit, most_inodes)
    }

    /// At most `limit` pages, which files take in huge ones.
    pub fn of_huge_pages(order: Order, limit: u64) -> Arc<Quota> {
        Quota::with(Some(order), limit, mm().total_frames() / 2)
    }

    fn with(huge: Option<Order>, limit: u64, most_inodes: u64) -> Arc<Quota> {
        Arc::new(Quota {
            huge,
            pages: PagePool::new(limit),
            most_inodes,
            inodes: AtomicU64::new(0),
        })
    }

    /// Charges one inode more; ENOSPC.
    pub fn place(self: &Arc<Self>) -> Result<InodeCharge> {
        let more = |n| (n < self.most_inodes).then_some(n + 1);
        match self.inodes.fetch_update(Relaxed, Relaxed, more) {
            Ok(_) => Ok(InodeCharge(self.clone())),
            Err(_) => Err(Errno::ENOSPC),
        }
    }

    /// Inodes in all and inodes left, for statfs(2).
    pub fn inodes(&self) -> (u64, u64) {
        let left = self.most_inodes.saturating_sub(self.inodes.load(Relaxed));
        (self.most_inodes, left)
    }

    /// The order of the pages of its files, if they are huge ones.
    pub fn huge_order(&self) -> Option<Order> {
        self.huge
    }

    /// Where the pages of a file count.
    pub fn pool(&self) -> Arc<PagePool> {
        self.pages.clone()
    }

    /// Pages, or huge pages, in all and left, for statfs(2).
    pub fn figures(&self) -> (u64, u64) {
        let (limit, used) = (self.pages.limit(), self.pages.used());
        if let Some(order) = self.huge {
            // Without a limit the pool is one, and Linux tells of none.
            let limit = if limit == u64::MAX {
                0
            } else {
                limit >> order.0
            };
            return (limit, limit.saturating_sub(used >> order.0));
        }
        let left = limit.saturating_sub(used).min(room::left_for_files());
        (limit.min(mm().total_frames() + mm().slots().total()), left)
    }

    /// ENOSPC when `more` pages would go over the limit, or memory is too short. May sleep.
    pub fn check(&self, more: u64) -> Result {
        if self.huge.is_some() {
            // Huge pages are charged as they are reserved.
            return Ok(());
        }
        let (_, left) = self.figures();
        match more > left {
            true => Err(Errno::ENOSPC),
            false => room::check_files(more),
        }
    }
}
