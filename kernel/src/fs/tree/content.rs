//! Who changes the contents of a file: one thread at a time (Linux: i_rwsem). It is taken before
//! the claim of an address space, and by no fault: a write whose source has to be waited for holds
//! up those who change the same file, and nobody else.

use crate::base::errno::Result;
use crate::sched::wait::WaitQueue;
use core::sync::atomic::{AtomicBool, Ordering};

/// Somebody has done with some file.
static DONE: WaitQueue = WaitQueue::new();

/// Whether somebody changes the contents of a file.
#[derive(Default)]
pub struct Content(AtomicBool);

/// The contents, the size and the seals of a file are the holder's to change.
pub struct Changing<'a>(&'a Content);

impl Content {
    /// Waits until nobody else changes them. EINTR: the thread is to end.
    pub fn change(&self) -> Result<Changing<'_>> {
        // Acquire: pairs with the release by the one before.
        let free = || (!self.0.swap(true, Ordering::Acquire)).then_some(());
        DONE.wait_killable(free)?;
        Ok(Changing(self))
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.0.0.store(false, Ordering::Release);
        DONE.wake_all();
    }
}
