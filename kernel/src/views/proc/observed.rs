//! A process's memory as an open file of /proc knows it: the address space that it had when the
//! file was opened, which the file does not keep (Linux: the file has a mm_count, not a mm_users).
//! Once the process has ended, or has another program, there is nothing to be seen.

use super::dir::Subject;
use crate::base::errno::{Errno, Result};
use crate::base::machine::AddressSpace;
use crate::process::task::{self, Process};
use alloc::sync::{Arc, Weak};

/// The process and its address space.
pub struct Observed {
    process: Arc<Process>,
    space: Weak<AddressSpace>,
}

impl Observed {
    /// The address space that `subject` has now; none once it has ended.
    pub fn new(subject: &Subject) -> Observed {
        let space = subject.process.with_space(Arc::downgrade);
        Observed {
            process: subject.process.clone(),
            space: space.unwrap_or_default(),
        }
    }

    /// The address space, while somebody uses it. To be let go before the caller breathes or
    /// sleeps: whoever has a reference keeps the memory.
    pub fn space(&self) -> Option<Arc<AddressSpace>> {
        self.space.upgrade()
    }

    /// The address space, not kept.
    pub fn weak(&self) -> &Weak<AddressSpace> {
        &self.space
    }

    /// ESRCH once the process has been waited for.
    pub fn check_process(&self) -> Result {
        match task::find(self.process.pid()) {
            Some(process) if Arc::ptr_eq(&process, &self.process) => Ok(()),
            _ => Err(Errno::ESRCH),
        }
    }
}
