//! OOM adjustment of a process, /proc/PID/oom_score_adj.

use crate::base::errno::{Errno, Result};
use core::sync::atomic::{AtomicI32, Ordering::Relaxed};

/// Never an OOM victim (proc(5), oom_score_adj).
pub const NEVER: i32 = -1000;
/// The first OOM victim.
const FIRST: i32 = 1000;

/// oom_score_adj, from -1000 (never a victim) to 1000 (the first).
#[derive(Default)]
pub struct Adjustment(AtomicI32);

impl Adjustment {
    /// A child's is its parent's.
    pub fn inherit(&self) -> Adjustment {
        Adjustment(AtomicI32::new(self.get()))
    }
    /// The number.
    pub fn get(&self) -> i32 {
        self.0.load(Relaxed)
    }
    /// Sets it; EINVAL outside -1000 to 1000.
    pub fn set(&self, value: i64) -> Result {
        let value = i32::try_from(value).map_err(|_| Errno::EINVAL)?;
        if !(NEVER..=FIRST).contains(&value) {
            return Err(Errno::EINVAL);
        }
        self.0.store(value, Relaxed);
        Ok(())
    }
}
