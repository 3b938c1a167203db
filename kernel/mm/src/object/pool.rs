//! Limits of the pages of objects.

use crate::sync::{AtomicU64, Ordering};
use alloc::sync::Arc;

/// A limit of the pages that several objects have together: the size of a file system in memory.
pub struct PagePool {
    limit: u64,
    used: AtomicU64,
}

impl PagePool {
    /// At most `limit` pages.
    pub fn new(limit: u64) -> Arc<PagePool> {
        let used = AtomicU64::new(0);
        Arc::new(PagePool { limit, used })
    }
    /// The limit, in pages.
    pub fn limit(&self) -> u64 {
        self.limit
    }
    /// Pages in use.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
    /// Counts more pages, unless the limit is reached. Relaxed: the count orders nothing.
    pub(super) fn take(&self, pages: u64) -> bool {
        let more = |used: u64| used.checked_add(pages).filter(|sum| *sum <= self.limit);
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        self.used.fetch_update(set, fetch, more).is_ok()
    }
    /// Counts `pages` less.
    pub(super) fn give(&self, pages: u64) {
        self.used.fetch_sub(pages, Ordering::Relaxed);
    }
}
