//! All address spaces, by keys that grow.

use super::{Mm, OutOfMemory};
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

/// A space, whose type this room does not know.
pub(crate) type AnySpace = dyn Any + Send + Sync;

/// What the keys lead to: a space is here until nothing of it is left.
pub(super) struct Spaces {
    last: AtomicU64,
    listed: Lock<Listed, { rank::SPACES }>,
}

/// In the order of the keys. Who leaves makes a gap, and gaps are closed when they are as many as
/// the spaces: a list of all processes is changed at its end, and else rarely.
struct Listed {
    spaces: Vec<(SpaceKey, Option<Weak<AnySpace>>)>,
    gaps: usize,
}

impl Spaces {
    pub(super) fn new() -> Self {
        Spaces {
            last: AtomicU64::new(0),
            listed: Lock::new(Listed {
                spaces: Vec::new(),
                gaps: 0,
            }),
        }
    }
}

impl Listed {
    #[inline]
    fn find(&self, key: SpaceKey) -> Result<usize, usize> {
        // Fast path: the youngest is asked for most.
        match self.spaces.last() {
            Some((last, _)) if *last == key => Ok(self.spaces.len() - 1),
            _ => self.spaces.binary_search_by_key(&key, |(key, _)| *key),
        }
    }
}

impl<M: Machine> Mm<M> {
    /// A key for a space that is to be made.
    pub(crate) fn take_key(&self) -> SpaceKey {
        // Relaxed: only uniqueness and the order of a parent and its child count.
        SpaceKey(self.spaces.last.fetch_add(1, Ordering::Relaxed) + 1)
    }
    /// Others find the space from now on.
    pub(crate) fn list_space(
        &self,
        key: SpaceKey,
        space: Weak<AnySpace>,
    ) -> Result<(), OutOfMemory> {
        let mut listed = self.spaces.listed.lock();
        fallible::reserve(&mut listed.spaces, 1)?;
        // Mostly at the end: two CPUs may come in another order than their keys.
        let mut at = listed.spaces.len();
        while at > 0 && listed.spaces[at - 1].0 > key {
            at -= 1;
        }
        listed.spaces.insert(at, (key, Some(space)));
        Ok(())
    }
    /// Whether others can find it: not a child whose fork has failed.
    pub(crate) fn is_listed(&self, key: SpaceKey) -> bool {
        self.spaces.listed.lock().find(key).is_ok()
    }
    /// Nothing is left of it.
    pub(crate) fn unlist_space(&self, key: SpaceKey) {
        let mut listed = self.spaces.listed.lock();
        let gone = match listed.find(key) {
            Ok(at) if at + 1 == listed.spaces.len() => listed.spaces.pop().and_then(|it| it.1),
            Ok(at) => {
                listed.gaps += 1;
                listed.spaces[at].1.take()
            }
            Err(_) => None,
        };
        if listed.gaps * 2 > listed.spaces.len() {
            listed.spaces.retain(|(_, space)| space.is_some());
            listed.gaps = 0;
        }
        fallible::give_back(&mut listed.spaces);
        drop(listed);
        drop(gone);
        self.machine.wake();
    }
    /// The first key above this one that leads to a space.
    pub(crate) fn key_after(&self, key: SpaceKey) -> Option<SpaceKey> {
        let listed = self.spaces.listed.lock();
        let (Ok(at) | Err(at)) = listed.find(SpaceKey(key.0 + 1));
        let mut above = listed.spaces[at..].iter();
        above
            .find(|(_, space)| space.is_some())
            .map(|(key, _)| *key)
    }
    /// The space of a key: `None` if it has gone, `Some(None)` while it ends.
    pub(crate) fn space_of(&self, key: SpaceKey) -> Option<Option<Arc<AnySpace>>> {
        let listed = self.spaces.listed.lock();
        let at = listed.find(key).ok()?;
        listed.spaces[at].1.as_ref().map(Weak::upgrade)
    }
}
