//! Which address space a thread, or a process, has.

use crate::base::machine::{AddressSpace, Space};
use crate::base::ranks;
use mm::sync::Lock;

/// A reference to an address space, or none; any CPU may ask for it.
pub struct SpaceRef(Lock<Slot, { ranks::THREAD_SPACE }>);

/// What is under the lock.
#[derive(Default)]
struct Slot {
    space: Option<Space>,
    /// A second reference to it, which [`SpaceRef::lend`] takes out and puts back.
    spare: Option<Space>,
}

impl SpaceRef {
    /// A reference to `space`.
    pub(super) fn new(space: Option<Space>) -> Self {
        let spare = None;
        SpaceRef(Lock::new(Slot { space, spare }))
    }

    /// The space, if there is one.
    pub fn get(&self) -> Option<Space> {
        self.0.lock().space.clone()
    }

    /// Calls `f` with the space, if there is one, without taking a reference. The lock is held
    /// meanwhile: `f` neither waits for the kernel lock nor sleeps.
    #[inline]
    pub fn with<R>(&self, f: impl FnOnce(&Space) -> R) -> Option<R> {
        self.0.lock().space.as_ref().map(f)
    }

    /// Calls `f` with the space, if there is one, without the lock. The count of references to a
    /// space is on a line of all its threads: where there are several, this writes it only the
    /// first time. For one thread to count is cheaper.
    #[inline]
    pub fn lend<R>(&self, f: impl FnOnce(&AddressSpace) -> R) -> Option<R> {
        let slot = self.0.lock();
        let space = slot.space.as_ref()?;
        if space.is_shared() {
            drop(slot);
            return self.lend_spare(f);
        }
        let lent = space.clone();
        drop(slot);
        Some(f(&lent))
    }

    /// [`Self::lend`] by the spare reference.
    #[inline(never)]
    fn lend_spare<R>(&self, f: impl FnOnce(&AddressSpace) -> R) -> Option<R> {
        let lent = self.take_spare()?;
        let result = f(&lent);
        self.put_back(lent);
        Some(result)
    }

    /// The spare reference, or a new one.
    #[inline(never)]
    fn take_spare(&self) -> Option<Space> {
        let mut slot = self.0.lock();
        slot.spare.take().or_else(|| slot.space.clone())
    }

    /// Keeps a reference for the next [`Self::lend`].
    #[inline(never)]
    fn put_back(&self, lent: Space) {
        let mut slot = self.0.lock();
        let is_same = |space: &Space| space.is(&lent);
        if slot.spare.is_none() && slot.space.as_ref().is_some_and(is_same) {
            slot.spare = Some(lent);
        } else {
            // It may be the last one: dropped without the lock.
            drop(slot);
        }
    }

    /// How many others have a reference to the space.
    pub(super) fn others(&self) -> usize {
        let slot = self.0.lock();
        let own = 1 + usize::from(slot.spare.is_some());
        let all = slot.space.as_ref().map_or(own, Space::references);
        all.saturating_sub(own)
    }

    /// Replaces it, by another one (execve) or by none (exit); the caller drops the old one without
    /// locks.
    pub(crate) fn replace(&self, space: Option<Space>) -> Option<Space> {
        let spare = None;
        // The spare is not the last reference.
        core::mem::replace(&mut *self.0.lock(), Slot { space, spare }).space
    }
}
