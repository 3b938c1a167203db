//! Which address space a thread, or a process, has.

use crate::base::machine::AddressSpace;
use crate::base::ranks;
use alloc::sync::Arc;
use mm::sync::Lock;

/// A reference to an address space, or none; any CPU may ask for it.
pub struct SpaceRef(Lock<Option<Arc<AddressSpace>>, { ranks::THREAD_SPACE }>);

impl SpaceRef {
    /// A reference to `space`.
    pub(super) fn new(space: Option<Arc<AddressSpace>>) -> Self {
        SpaceRef(Lock::new(space))
    }

    /// The space, if there is one.
    pub fn get(&self) -> Option<Arc<AddressSpace>> {
        self.0.lock().clone()
    }

    /// Calls `f` with the space, if there is one, without taking a reference.
    #[inline]
    pub fn with<R>(&self, f: impl FnOnce(&Arc<AddressSpace>) -> R) -> Option<R> {
        self.0.lock().as_ref().map(f)
    }

    /// Replaces it, by another one (execve) or by none (exit); the caller drops the old one without
    /// locks.
    pub(crate) fn replace(&self, space: Option<Arc<AddressSpace>>) -> Option<Arc<AddressSpace>> {
        core::mem::replace(&mut *self.0.lock(), space)
    }
}
