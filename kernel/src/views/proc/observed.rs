//! The address space behind an open file of /proc: the one that the process had when the file was
//! opened, by a weak reference (Linux: the file has a mm_count, not a mm_users). Once the process
//! has ended, or has another program, there is nothing to be seen.

use super::subject::{Known, Subject};
use crate::base::errno::Result;
use crate::base::machine::{Space, WeakSpace};

/// The process and its address space.
pub struct Observed {
    subject: Known,
    space: WeakSpace,
}

impl Observed {
    /// The address space that `subject` has now; none once it has ended.
    pub fn new(subject: &Subject) -> Observed {
        let space = subject.process.space.with(Space::downgrade);
        Observed {
            subject: subject.known(),
            space: space.unwrap_or_default(),
        }
    }

    /// The address space, while it is in use. To be dropped before the caller pauses or sleeps:
    /// whoever has a reference keeps the memory.
    pub fn space(&self) -> Option<Space> {
        self.space.upgrade()
    }

    /// The address space, not kept.
    pub fn weak(&self) -> &WeakSpace {
        &self.space
    }

    /// ESRCH once the process has been waited for.
    pub fn check_process(&self) -> Result {
        self.subject.subject().map(drop)
    }
}
