//! The lock of a space, held for a change of its areas.
//!
//! Such a verb (mmap, munmap, mprotect, fork ...) may have to do more than the lock may be held
//! for. Between two steps it releases the lock and keeps the *claim*: another verb that changes
//! areas waits until the claim is gone, so each of them is whole to the others. Everything else
//! goes on: faults, populating, madvise about pages, what /proc shows. They find the areas as the
//! verb leaves them at the pause; so a verb that unmaps takes its areas out first, and a fault
//! there is refused.
//!
//! A fault never waits for the claim: it may come under any lock of the kernel.

use super::{AddressSpace, Error, Locked};
use crate::addr::{VirtAddr, VirtRange};
use crate::arch::Machine;
use crate::vma::Vma;
use core::ops::{ControlFlow, Deref, DerefMut};

/// Areas that are looked at, or change, in one step: each costs up to 8000 instructions, where two
/// become one.
pub(crate) const AREAS: usize = 32;

/// Holds the lock of a space whose areas no other verb changes until this is dropped.
pub(crate) struct Areas<'a, M: Machine> {
    pub space: &'a AddressSpace<M>,
    /// `None` in a pause only.
    locked: Option<Locked<'a, M>>,
    /// Whether there was a pause.
    claimed: bool,
}

impl<M: Machine> AddressSpace<M> {
    /// Locks the space for a change of its areas, after whatever changes them now. Error: the
    /// thread is to end instead.
    #[inline]
    pub(crate) fn areas(&self) -> Result<Areas<'_, M>, Error> {
        let mut locked = self.lock();
        while locked.claimed {
            drop(locked);
            let machine = self.mm.machine();
            if !machine.wait(&mut || !self.lock().claimed) {
                return Err(Error::Interrupted);
            }
            locked = self.lock();
        }
        Ok(Areas {
            space: self,
            locked: Some(locked),
            claimed: false,
        })
    }
}

impl<M: Machine> Areas<'_, M> {
    /// Lets interrupts and other threads in between two steps. Returns whether the thread is to
    /// end.
    pub fn pause(&mut self) -> bool {
        self.pause_to(|| ())
    }
    /// Whether there was a pause: what faults change may be other than it was.
    pub fn has_paused(&self) -> bool {
        self.claimed
    }
    /// As [`Self::pause`], after `f`, which may take locks of the kernel: dropping files does.
    #[cold]
    pub fn pause_to(&mut self, f: impl FnOnce()) -> bool {
        self.claimed = true;
        self.deref_mut().claimed = true;
        self.locked = None;
        f();
        let ends = self.space.mm.machine().breathe();
        self.locked = Some(self.space.lock());
        ends
    }
}

impl<M: Machine> Areas<'_, M> {
    /// Where a step from the start of `range` on ends, when there are so many areas that it takes
    /// more than one.
    #[inline]
    pub fn cut(&self, range: VirtRange) -> Option<VirtAddr> {
        // Mostly the whole space has fewer.
        if self.vmas.len() <= AREAS {
            return None;
        }
        self.vmas.start_of(AREAS, range)
    }

    /// Calls `f` with one part of `range` after the other, each small enough for one step, until it
    /// breaks off.
    #[inline]
    pub fn in_parts(
        &mut self,
        range: VirtRange,
        mut f: impl FnMut(&mut Locked<'_, M>, VirtRange) -> ControlFlow<()>,
    ) {
        let mut rest = range;
        while let Some(cut) = self.cut(rest) {
            if f(self, VirtRange::new(rest.start, cut)).is_break() {
                return;
            }
            rest.start = cut;
            self.pause();
        }
        let _ = f(self, rest);
    }

    /// Changes protection and flags of all areas in `range`, as [`crate::vma::VmaTree::update`]
    /// does.
    pub fn update_all(&mut self, range: VirtRange, mut f: impl FnMut(&mut Vma<M>)) {
        self.in_parts(range, |inner, part| {
            inner.vmas.update(part, &mut f);
            ControlFlow::Continue(())
        });
    }

    /// Pages of `range` that lie in areas for which `counts`.
    pub fn pages_of(&mut self, range: VirtRange, counts: impl Fn(&Vma<M>) -> bool) -> u64 {
        let mut pages = 0;
        self.in_parts(range, |inner, part| {
            pages += inner.vmas.pages_of(part, &counts);
            ControlFlow::Continue(())
        });
        pages
    }
}

impl<'a, M: Machine> Deref for Areas<'a, M> {
    type Target = Locked<'a, M>;
    #[inline]
    fn deref(&self) -> &Locked<'a, M> {
        self.locked.as_ref().expect(HELD)
    }
}

impl<'a, M: Machine> DerefMut for Areas<'a, M> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Locked<'a, M> {
        self.locked.as_mut().expect(HELD)
    }
}

const HELD: &str = "the lock is held but in a pause";

impl<M: Machine> Drop for Areas<'_, M> {
    #[inline]
    fn drop(&mut self) {
        if self.claimed
            && let Some(mut locked) = self.locked.take()
        {
            locked.claimed = false;
            drop(locked);
            self.space.mm.machine().wake();
        }
    }
}
