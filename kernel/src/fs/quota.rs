//! How much memory the files of one file system may take: tmpfs(5)'s size.

use crate::errno::{Errno, Result};
use crate::machine::mm;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};

/// A limit that all files of a file system share; pages.
pub struct Quota {
    limit: u64,
    /// Relaxed: two writers at the same moment may go over the limit by what they write.
    used: AtomicU64,
}

impl Quota {
    /// Memory itself is the limit.
    pub fn unlimited() -> Arc<Quota> {
        Quota::new(u64::MAX)
    }

    /// At most `limit` pages.
    pub fn new(limit: u64) -> Arc<Quota> {
        Arc::new(Quota {
            limit,
            used: AtomicU64::new(0),
        })
    }

    /// Pages in all and pages left, for statfs(2).
    pub fn figures(&self) -> (u64, u64) {
        let counts = mm().counts();
        let used = self.used.load(Ordering::Relaxed);
        let left = self.limit.saturating_sub(used).min(counts.free);
        (self.limit.min(counts.total), left)
    }
}

/// One file's part.
pub struct Share {
    quota: Arc<Quota>,
    charged: AtomicU64,
}

impl Share {
    /// Nothing yet.
    pub fn new(quota: Arc<Quota>) -> Share {
        Share {
            quota,
            charged: AtomicU64::new(0),
        }
    }

    /// ENOSPC when `more` pages would go over the limit.
    pub fn check(&self, more: u64) -> Result {
        let (_, left) = self.quota.figures();
        if more > left {
            Err(Errno::ENOSPC)
        } else {
            Ok(())
        }
    }

    /// The file has `pages` now. Pages that appear by faults in a mapping are counted at the next change.
    pub fn charge(&self, pages: u64) {
        let before = self.charged.swap(pages, Ordering::Relaxed);
        // Wrapping: the difference may be negative.
        self.quota
            .used
            .fetch_add(pages.wrapping_sub(before), Ordering::Relaxed);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.charge(0);
    }
}
