//! All address spaces and all objects, by keys that grow.

use super::{Mm, Result};
use crate::arch::Machine;
use crate::sync::{AtomicU64, Lock, Ordering, rank};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::any::Any;

/// The name of an address space for ever: keys grow, and none is given twice. A child's is greater
/// than that of its parent, so that one pass in the order of the keys, in which others may come and
/// go, meets each space that has a copy of what an earlier one had.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct SpaceKey(u64);

impl SpaceKey {
    /// Less than that of any space.
    pub const NONE: SpaceKey = SpaceKey(0);

    /// As a number; they do not come to 2^63.
    #[inline]
    pub(crate) fn number(self) -> u64 {
        self.0
    }
    /// The key of a number.
    #[inline]
    pub(crate) fn from_number(number: u64) -> SpaceKey {
        SpaceKey(number)
    }
}

/// A space or an object, whose type this room does not know.
pub(crate) type AnyOne = dyn Any + Send + Sync;

/// What numbers that grow lead to: it is here until nothing of it is left.
pub(crate) struct Registry {
    last: AtomicU64,
    listed: Lock<Listed, { rank::SPACES }>,
}

/// In the order of the numbers. Who leaves makes a gap, and gaps are closed when they are as many
/// as the others: a list of all processes is changed at its end, and else rarely.
struct Listed {
    all: Vec<(u64, Option<Weak<AnyOne>>)>,
    gaps: usize,
}

impl Listed {
    #[inline]
    fn find(&self, number: u64) -> Result<usize, usize> {
        // Fast path: the youngest is asked for most.
        match self.all.last() {
            Some((last, _)) if *last == number => Ok(self.all.len() - 1),
            _ => self
                .all
                .binary_search_by_key(&number, |(number, _)| *number),
        }
    }
}

impl Registry {
    pub(super) fn new() -> Self {
        Registry {
            last: AtomicU64::new(0),
            listed: Lock::new(Listed {
                all: Vec::new(),
                gaps: 0,
            }),
        }
    }
    /// A number from 1 on, which none has had.
    pub fn take(&self) -> u64 {
        // Relaxed: only uniqueness and the order of a parent and its child count.
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }
    /// Others find it from now on.
    pub fn list(&self, number: u64, one: Weak<AnyOne>) -> Result {
        let mut listed = self.listed.lock();
        fallible::reserve(&mut listed.all, 1)?;
        // Mostly at the end: two CPUs may come in another order than their numbers.
        let mut at = listed.all.len();
        while at > 0 && listed.all[at - 1].0 > number {
            at -= 1;
        }
        listed.all.insert(at, (number, Some(one)));
        Ok(())
    }
    /// Nothing is left of it.
    pub fn unlist(&self, number: u64) {
        let mut listed = self.listed.lock();
        let gone = match listed.find(number) {
            Ok(at) if at + 1 == listed.all.len() => listed.all.pop().and_then(|it| it.1),
            Ok(at) => {
                listed.gaps += 1;
                listed.all[at].1.take()
            }
            Err(_) => None,
        };
        if listed.gaps * 2 > listed.all.len() {
            listed.all.retain(|(_, one)| one.is_some());
            listed.gaps = 0;
        }
        fallible::give_back(&mut listed.all);
        drop(listed);
        drop(gone);
    }
    /// The first number above this one that leads to something.
    pub fn after(&self, number: u64) -> Option<u64> {
        let listed = self.listed.lock();
        let (Ok(at) | Err(at)) = listed.find(number + 1);
        let mut above = listed.all[at..].iter();
        above
            .find(|(_, one)| one.is_some())
            .map(|(number, _)| *number)
    }
    /// What is of this number: `None` if it has gone, `Some(None)` while it ends.
    pub fn get(&self, number: u64) -> Option<Option<Arc<AnyOne>>> {
        let listed = self.listed.lock();
        let at = listed.find(number).ok()?;
        listed.all[at].1.as_ref().map(Weak::upgrade)
    }
}

impl<M: Machine> Mm<M> {
    /// A key for a space that is to be made.
    pub(crate) fn take_key(&self) -> SpaceKey {
        SpaceKey(self.spaces.take())
    }
    /// Others find the space from now on.
    pub(crate) fn list_space(&self, key: SpaceKey, space: Weak<AnyOne>) -> Result {
        self.spaces.list(key.0, space)
    }
    /// Whether others can find it: not a child whose fork has failed.
    pub(crate) fn is_listed(&self, key: SpaceKey) -> bool {
        self.spaces.listed.lock().find(key.0).is_ok()
    }
    /// Nothing is left of it.
    pub(crate) fn unlist_space(&self, key: SpaceKey) {
        self.spaces.unlist(key.0);
        self.machine.wake();
    }
    /// The first key above this one that leads to a space.
    pub(crate) fn key_after(&self, key: SpaceKey) -> Option<SpaceKey> {
        self.spaces.after(key.0).map(SpaceKey)
    }
    /// The space of a key: `None` if it has gone, `Some(None)` while it ends.
    pub(crate) fn space_of(&self, key: SpaceKey) -> Option<Option<Arc<AnyOne>>> {
        self.spaces.get(key.0)
    }
    /// All objects that have, or had, a page.
    pub(crate) fn objects(&self) -> &Registry {
        &self.objects
    }
}
