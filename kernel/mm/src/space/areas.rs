//! The lock of a space, held for a change of its VMAs.
//!
//! Such a verb (mmap, munmap, mprotect, fork ...) may exceed the time limit of the lock. Between
//! steps it releases the lock and keeps the *claim*: other verbs that change VMAs wait, so each is
//! atomic to the others. Faults, populate, page advice and /proc proceed, with the VMAs as of the
//! pause; so a verb that unmaps takes its VMAs out first.
//!
//! An access that these VMAs do not allow is not refused: it waits for the end of the claim and is
//! tried again (`Resolution::Claimed`). It sees the VMAs from before the verb or from after it,
//! and none in between. A stack grows then, too, and not into a range that is to be mapped.

use super::{AddressSpace, Error, Locked, Result};
use crate::addr::{VirtAddr, VirtRange};
use crate::arch::Machine;
use crate::vma::Vma;
use core::ops::{Deref, DerefMut};

/// VMAs per step, read or changed: up to 8000 instructions each, if two merge.
pub(crate) const AREAS: usize = 32;

/// Holds the lock of a space and excludes other changes of its VMAs until dropped.
pub(crate) struct Areas<'a, M: Machine> {
    pub space: &'a AddressSpace<M>,
    /// `None` during a pause only.
    locked: Option<Locked<'a, M>>,
    /// Whether there was a pause.
    claimed: bool,
}

impl<M: Machine> AddressSpace<M> {
    /// Locks the space for a change of its VMAs, after any change in progress. Error: the thread is
    /// to end. In line, and made in one place: it would be copied where two ways meet.
    #[inline(always)]
    pub(crate) fn areas(&self) -> Result<Areas<'_, M>> {
        loop {
            let mut locked = self.lock();
            if !locked.claimed {
                locked.vmas.most = self.mm.overcommit().areas();
                return Ok(Areas {
                    space: self,
                    locked: Some(locked),
                    claimed: false,
                });
            }
            drop(locked);
            if !self.wait_for_claim() {
                return Err(Error::Interrupted);
            }
        }
    }

    /// [`Self::areas`] for what was begun and must be completed, also by a thread that is to end.
    pub(crate) fn areas_at_last(&self) -> Areas<'_, M> {
        loop {
            if let Ok(areas) = self.areas() {
                return areas;
            }
            // A thread that ends does not sleep until another change has ended.
            self.mm.machine().breathe();
        }
    }

    /// Sleeps until no change of VMAs is between two steps; the caller holds no lock. `false`: the
    /// thread is to end instead.
    #[cold]
    #[inline(never)]
    pub(crate) fn wait_for_claim(&self) -> bool {
        let machine = self.mm.machine();
        machine.wait(&mut || !self.lock().claimed)
    }
}

impl<M: Machine> Locked<'_, M> {
    /// Whether the VMAs are those of a pause.
    pub fn is_claimed(&self) -> bool {
        self.claimed
    }
}

impl<M: Machine> Areas<'_, M> {
    /// Releases the lock between two steps. Returns whether the thread is to end.
    pub fn pause(&mut self) -> bool {
        self.pause_to(|| ())
    }
    /// Whether there was a pause: state that faults change must be read again.
    pub fn has_paused(&self) -> bool {
        self.claimed
    }
    /// [`Self::pause`], after `f`, which may take kernel locks, as a drop of a file does.
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
    /// End of the step at the start of `range`, if it takes several.
    #[inline]
    pub fn cut(&self, range: VirtRange) -> Option<VirtAddr> {
        // Fast path: the whole space usually has fewer.
        if self.vmas.len() <= AREAS {
            return None;
        }
        self.vmas.start_of(AREAS, range)
    }

    /// Calls `f` with consecutive parts of `range`, each small enough for one step, until it
    /// returns `false`.
    #[inline]
    pub fn in_parts(
        &mut self,
        range: VirtRange,
        mut f: impl FnMut(&mut Locked<'_, M>, VirtRange) -> bool,
    ) {
        let mut rest = range;
        while let Some(cut) = self.cut(rest) {
            if !f(self, VirtRange::new(rest.start, cut)) {
                return;
            }
            rest.start = cut;
            self.pause();
        }
        f(self, rest);
    }

    /// Pages of `range` in VMAs for which `counts` holds.
    pub fn pages_of(&mut self, range: VirtRange, counts: impl Fn(&Vma<M>) -> bool) -> u64 {
        let mut pages = 0;
        self.in_parts(range, |inner, part| {
            pages += inner.vmas.pages_of(part, &counts);
            true
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
        let Some(locked) = &mut self.locked else {
            return;
        };
        locked.inner.settle_charge(&self.space.mm);
        if self.claimed {
            locked.claimed = false;
            self.locked = None;
            self.space.mm.machine().wake();
        }
    }
}
