//! References to address spaces, and the ways to all of them.

use super::{AddressSpace, Error};
use crate::arch::Machine;
use crate::manager::{AnyOne, Family, Mm, Result, SpaceKey};
use crate::object::Object;
use alloc::sync::{Arc, Weak};
use core::ops::Deref;

/// A reference to an address space. Whoever drops the last one unmaps everything, in steps, and
/// holds no lock.
pub struct Handle<M: Machine>(Arc<AddressSpace<M>>);

/// A reference that does not keep the space.
pub struct WeakHandle<M: Machine>(Weak<AddressSpace<M>>);

impl<M: Machine> Handle<M> {
    /// A new address space, of a family of its own. [`Error::Again`]: no free id
    /// ([`crate::own::Ids::MOST`]).
    pub fn new(mm: &Arc<Mm<M>>) -> Result<Self, Error> {
        fallible::check()?;
        let family = Arc::new(Family::default());
        let space = Handle(AddressSpace::unlisted(mm, family)?);
        space.list()?;
        Ok(space)
    }
    /// An empty one of the same family, for a child: nobody finds it before [`Self::list`].
    pub(crate) fn for_child(parent: &AddressSpace<M>) -> Result<Self, Error> {
        let family = parent.id.family.clone();
        Ok(Handle(AddressSpace::unlisted(&parent.mm, family)?))
    }
    /// The space, which nobody finds yet.
    pub(crate) fn unlisted(&mut self) -> &mut AddressSpace<M> {
        Arc::get_mut(&mut self.0).expect("nobody else has a reference")
    }
    /// Others find it from now on.
    pub(crate) fn list(&self) -> Result {
        let space: Weak<AddressSpace<M>> = Arc::downgrade(&self.0);
        self.mm.list_space(self.key, space)
    }
    /// To one that the list has.
    fn of(space: Arc<AnyOne>) -> Option<Self> {
        Some(Handle(space.downcast().expect("all are of this machine")))
    }
    /// Whether both are of one space.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
    /// How many references there are.
    pub fn references(&self) -> usize {
        Arc::strong_count(&self.0)
    }
    /// A reference that does not keep the space.
    pub fn downgrade(&self) -> WeakHandle<M> {
        WeakHandle(Arc::downgrade(&self.0))
    }
}

impl<M: Machine> Default for WeakHandle<M> {
    /// One to no space.
    fn default() -> Self {
        WeakHandle(Weak::new())
    }
}

impl<M: Machine> WeakHandle<M> {
    /// Whether it is to this space.
    pub fn is(&self, space: &Handle<M>) -> bool {
        core::ptr::eq(self.0.as_ptr(), Arc::as_ptr(&space.0))
    }
    /// The space, if it has not ended.
    pub fn upgrade(&self) -> Option<Handle<M>> {
        self.0.upgrade().map(Handle)
    }
}

impl<M: Machine> Clone for Handle<M> {
    #[inline]
    fn clone(&self) -> Self {
        Handle(self.0.clone())
    }
}

impl<M: Machine> Deref for Handle<M> {
    type Target = AddressSpace<M>;
    #[inline]
    fn deref(&self) -> &AddressSpace<M> {
        &self.0
    }
}

impl<M: Machine> Mm<M> {
    /// The space of a key, after waiting for one that ends; `None` if it has gone. The caller holds
    /// no lock.
    fn space(&self, key: SpaceKey) -> Option<Handle<M>> {
        loop {
            if let Some(space) = self.space_of(key)? {
                return Handle::of(space);
            }
            let mut is_settled = || {
                // It may wait for this CPU.
                self.answer();
                !matches!(self.space_of(key), Some(None))
            };
            // A thread that is to end completes what it has begun.
            if !self.machine().wait(&mut is_settled) {
                self.machine().breathe();
            }
        }
    }

    /// Calls `f` with each address space in the order of their keys, so also with those that are
    /// made meanwhile. In steps: the caller holds no lock.
    pub fn for_each_space(&self, f: &mut dyn FnMut(&AddressSpace<M>)) {
        self.visit(|key| self.key_after(key), Self::space, f);
    }

    /// [`Self::for_each_space`] without those that end: who ends one may wait for the caller.
    pub fn for_each_living(&self, f: &mut dyn FnMut(&AddressSpace<M>)) {
        let living = |_: &Self, key| Handle::of(self.space_of(key)??);
        self.visit(|key| self.key_after(key), living, f);
    }

    /// Calls `f` with the spaces that `find` has for the keys that `next` says, each after the one
    /// before.
    fn visit(
        &self,
        next: impl Fn(SpaceKey) -> Option<SpaceKey>,
        find: impl Fn(&Self, SpaceKey) -> Option<Handle<M>>,
        f: &mut dyn FnMut(&AddressSpace<M>),
    ) {
        let mut at = SpaceKey::NONE;
        while let Some(key) = next(at) {
            if let Some(space) = find(self, key) {
                f(&space);
            }
            self.machine().breathe();
            at = key;
        }
    }
}

impl<M: Machine> AddressSpace<M> {
    /// Calls `f` with each space of the family, as [`Mm::for_each_space`].
    pub(crate) fn for_each_relative(&self, f: &mut dyn FnMut(&AddressSpace<M>)) {
        self.mm.for_each_space(&mut |space| {
            if self.is_relative(space) {
                f(space);
            }
        });
    }
    /// [`Self::for_each_relative`] without those that end, as [`Mm::for_each_living`].
    pub(crate) fn for_each_living_relative(&self, f: &mut dyn FnMut(&AddressSpace<M>)) {
        // Alone: else each of many would look at all.
        if Arc::strong_count(&self.id.family) == 1 {
            return f(self);
        }
        self.mm.for_each_living(&mut |space| {
            if self.is_relative(space) {
                f(space);
            }
        });
    }
    /// Whether the other space is of the family.
    fn is_relative(&self, space: &AddressSpace<M>) -> bool {
        Arc::ptr_eq(&space.id.family, &self.id.family)
    }
}

impl<M: Machine> Object<M> {
    /// Calls `f` with each address space that may map its pages, as [`Mm::for_each_space`].
    pub fn for_each_mapper(&self, f: &mut dyn FnMut(&AddressSpace<M>)) {
        self.mm().visit(|key| self.mapper_after(key), Mm::space, f);
    }
}
