//! How much memory the files of one file system may take: tmpfs(5)'s size.

use crate::errno::{Errno, Result};
use crate::machine::mm;
use alloc::sync::Arc;
use mm::object::Pool;

/// A limit that all files of a file system share.
pub struct Quota(Arc<Pool>);

impl Quota {
    /// Memory itself is the limit.
    pub fn unlimited() -> Arc<Quota> {
        Quota::new(u64::MAX)
    }

    /// At most `limit` pages.
    pub fn new(limit: u64) -> Arc<Quota> {
        Arc::new(Quota(Pool::new(limit)))
    }

    /// Where the pages of a file count.
    pub fn pool(&self) -> Arc<Pool> {
        self.0.clone()
    }

    /// Pages in all and pages left, for statfs(2).
    pub fn figures(&self) -> (u64, u64) {
        let counts = mm().counts();
        let (limit, used) = (self.0.limit(), self.0.used());
        let left = limit.saturating_sub(used).min(counts.free);
        (limit.min(counts.total), left)
    }

    /// ENOSPC when `more` pages would go over the limit.
    pub fn check(&self, more: u64) -> Result {
        let (_, left) = self.figures();
        if more > left {
            Err(Errno::ENOSPC)
        } else {
            Ok(())
        }
    }
}
