//! References to address spaces, and the ways to all of them.

use super::{AddressSpace, Error};
use crate::arch::Machine;
use crate::manager::{AnySpace, Family, Mm, SpaceKey};
use crate::object::Object;
use alloc::sync::{Arc, Weak};
use core::ops::Deref;

/// A reference to an address space. Whoever drops the last one unmaps everything, in steps, and
/// holds no lock.
pub struct Handle<M: Machine>(Option<Arc<AddressSpace<M>>>);

/// A reference that does not keep the space.
pub struct WeakHandle<M: Machine>(Weak<AddressSpace<M>>);

impl<M: Machine> AddressSpace<M> {
    /// Makes it one that others find.
    pub(crate) fn into_handle(self) -> Handle<M> {
        let space = Arc::new(self);
        let any: Arc<AnySpace> = space.clone();
        space.mm.set_space(space.key, &any);
        drop(any);
        Handle(Some(space))
    }
}

impl<M: Machine> Handle<M> {
    /// A new address space, of a family of its own. [`Error::Again`]: no free id
    /// ([`crate::own::Ids::MOST`]).
    pub fn new(mm: &Arc<Mm<M>>) -> Result<Self, Error> {
        fallible::check()?;
        let family = Arc::new(Family::default());
        AddressSpace::unfinished(mm, family).map(AddressSpace::into_handle)
    }
    fn arc(&self) -> &Arc<AddressSpace<M>> {
        self.0.as_ref().expect("it goes with its handle")
    }
    /// Whether both are of one space.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(self.arc(), other.arc())
    }
    /// How many references there are.
    pub fn references(&self) -> usize {
        Arc::strong_count(self.arc())
    }
    /// A reference that does not keep the space.
    pub fn downgrade(&self) -> WeakHandle<M> {
        WeakHandle(Arc::downgrade(self.arc()))
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
        core::ptr::eq(self.0.as_ptr(), Arc::as_ptr(space.arc()))
    }
    /// The space, if it has not ended.
    pub fn upgrade(&self) -> Option<Handle<M>> {
        self.0.upgrade().map(|space| Handle(Some(space)))
    }
}

impl<M: Machine> Clone for Handle<M> {
    fn clone(&self) -> Self {
        Handle(self.0.clone())
    }
}

impl<M: Machine> Deref for Handle<M> {
    type Target = AddressSpace<M>;
    fn deref(&self) -> &AddressSpace<M> {
        self.arc()
    }
}

impl<M: Machine> Drop for Handle<M> {
    fn drop(&mut self) {
        let last = self.0.take().and_then(Arc::into_inner);
        if let Some(space) = last {
            end(space);
        }
    }
}

#[cold]
#[inline(never)]
fn end<M: Machine>(mut space: AddressSpace<M>) {
    let mm = space.mm.clone();
    mm.machine().space_ends(&space);
    mm.machine().unlocked(&mut || space.end());
}

impl<M: Machine> Mm<M> {
    /// The space of a key, after waiting for one that is made or ends; `None` if it has gone. The
    /// caller holds no lock.
    fn space(&self, key: SpaceKey) -> Option<Handle<M>> {
        loop {
            if let Some(space) = self.space_of(key)? {
                let space = space.downcast().expect("all are of this machine");
                return Some(Handle(Some(space)));
            }
            let is_settled = || !matches!(self.space_of(key), Some(None));
            // A thread that is to end completes what it has begun.
            if !self.machine().wait(&mut || is_settled()) {
                self.machine().breathe();
            }
        }
    }

    /// Calls `f` with each address space in the order of their keys, so also with those that are
    /// made meanwhile. In steps: the caller holds no lock.
    pub fn for_each_space(&self, f: &mut dyn FnMut(&AddressSpace<M>)) {
        let mut at = SpaceKey::NONE;
        while let Some(key) = self.key_after(at) {
            if let Some(space) = self.space(key) {
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
            if Arc::ptr_eq(&space.id.family, &self.id.family) {
                f(space);
            }
        });
    }
}

impl<M: Machine> Object<M> {
    /// Calls `f` with each address space that may map its pages, as [`Mm::for_each_space`].
    pub fn for_each_mapper(&self, f: &mut dyn FnMut(&AddressSpace<M>)) {
        let mut at = SpaceKey::NONE;
        while let Some(key) = self.mapper_after(at) {
            if let Some(space) = self.mm().space(key) {
                f(&space);
            }
            self.mm().machine().breathe();
            at = key;
        }
    }
}
