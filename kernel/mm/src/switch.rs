//! Switches: every mechanism can be turned off, on the kernel's command line and at run time, and the tests pass either way.

use crate::sync::{AtomicBool, Ordering};

/// The switches of one memory manager.
pub struct Switches {
    contpte: AtomicBool,
}

impl Default for Switches {
    fn default() -> Self {
        Switches {
            contpte: AtomicBool::new(true),
        }
    }
}

impl Switches {
    /// `contpte=on|off`: whether complete blocks of PTEs get the contiguous bit, where the hardware has one.
    #[inline]
    pub fn contpte(&self) -> bool {
        self.contpte.load(Ordering::Relaxed)
    }
    /// Sets `contpte`. What is folded already stays so until it is changed.
    pub fn set_contpte(&self, on: bool) {
        self.contpte.store(on, Ordering::Relaxed);
    }
}
