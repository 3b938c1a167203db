//! A locked space: the only key to what the lock covers.

use super::{AddressSpace, Inner};
use crate::arch::Machine;
use crate::manager::{Mm, SpaceId};
use crate::sync::{WriteGuard, rank};
use crate::table::{Edit, Node};
use crate::tlb::Gather;
use core::ops::{Deref, DerefMut};

/// Holds the lock of a space.
pub(crate) struct Locked<'a, M: Machine> {
    /// The space.
    pub space: &'a AddressSpace<M>,
    pub(super) inner: WriteGuard<'a, Inner<M>, { rank::SPACE }>,
}

impl<M: Machine> AddressSpace<M> {
    /// Locks the space.
    #[inline]
    pub(crate) fn lock(&self) -> Locked<'_, M> {
        Locked {
            space: self,
            inner: self.inner.write(|| self.mm.readers(), Inner::settle),
        }
    }
}

impl<'a, M: Machine> Locked<'a, M> {
    /// The memory manager of the space.
    #[inline]
    pub fn mm(&self) -> &'a Mm<M> {
        &self.space.mm
    }
    /// The space's TLB tag and account id.
    #[inline]
    pub fn id(&self) -> &'a SpaceId {
        &self.space.id
    }
    /// The root of the page tables, to read from.
    #[inline]
    pub fn root(&self) -> Node<'a, M> {
        Node::root(self.mm(), &self.table)
    }
    /// Runs `f` without the lock. Returns its result, and whether the lock was not taken meanwhile:
    /// then all that was read under it is still valid.
    #[inline(always)]
    pub fn open<R>(&mut self, f: impl FnOnce(&'a Mm<M>) -> R) -> (R, bool) {
        let mm = self.mm();
        let (result, undisturbed) = self.inner.reopen(|| mm.readers(), Inner::settle, || f(mm));
        if !undisturbed {
            self.inner.turn += 1;
        }
        (result, undisturbed)
    }
    /// A number that changes if the lock was taken during [`Self::open`].
    pub fn turn(&self) -> u64 {
        self.inner.turn
    }
    /// A gather of the space.
    #[inline]
    pub fn gather(&self) -> Gather<'a, M> {
        Gather::new(self.mm(), self.id())
    }
    /// Edits the page tables by `f`, then flushes what it changed and frees what it removed.
    #[inline(always)]
    pub fn edit<R>(&mut self, f: impl FnOnce(&mut Edit<'_, 'a, M>) -> R) -> R {
        gathered(self.mm(), self.id(), |gather| {
            f(&mut self.table.edit(gather))
        })
    }
}

/// Changes entries of a space by `f`, then flushes what it changed and frees what it removed.
#[inline(always)]
pub(crate) fn gathered<'a, M: Machine, R>(
    mm: &'a Mm<M>,
    id: &'a SpaceId,
    f: impl FnOnce(&mut Gather<'a, M>) -> R,
) -> R {
    let mut gather = Gather::new(mm, id);
    let result = f(&mut gather);
    gather.finish();
    result
}

impl<M: Machine> Deref for Locked<'_, M> {
    type Target = Inner<M>;
    #[inline]
    fn deref(&self) -> &Inner<M> {
        &self.inner
    }
}

impl<M: Machine> DerefMut for Locked<'_, M> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Inner<M> {
        &mut self.inner
    }
}
