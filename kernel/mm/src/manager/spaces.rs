//! All address spaces, by keys that grow.

use super::{Mm, OutOfMemory};
use crate::arch::Machine;
use crate::sync::{Lock, rank};
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use core::any::Any;
use core::ops::Bound;

/// The name of an address space for ever: keys grow, and none is given twice. A child's is greater
/// than that of its parent, so that one pass in the order of the keys, in which others may come and
/// go, meets each space that has a copy of what an earlier one had.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct SpaceKey(u64);

impl SpaceKey {
    /// Less than that of any space.
    pub const NONE: SpaceKey = SpaceKey(0);
}

/// A space, whose type this room does not know.
pub(crate) type AnySpace = dyn Any + Send + Sync;

/// What the keys lead to. A space is here before it maps anything, and until nothing of it is left.
pub(super) struct Spaces(Lock<Known, { rank::SPACES }>);

struct Known {
    last: u64,
    /// Without a space yet while it is made, and no longer with one while it ends.
    spaces: BTreeMap<SpaceKey, Weak<AnySpace>>,
}

impl Spaces {
    pub(super) fn new() -> Self {
        Spaces(Lock::new(Known {
            last: 0,
            spaces: BTreeMap::new(),
        }))
    }
}

impl<M: Machine> Mm<M> {
    /// A key for a space that is to be made.
    pub(crate) fn take_key(&self) -> Result<SpaceKey, OutOfMemory> {
        // For a node of the map, which cannot fail.
        fallible::check()?;
        let mut known = self.spaces.0.lock();
        known.last += 1;
        let key = SpaceKey(known.last);
        known.spaces.insert(key, Weak::<()>::new());
        Ok(key)
    }
    /// Gives it back when nothing of the space is left.
    pub(crate) fn give_key(&self, key: SpaceKey) {
        self.spaces.0.lock().spaces.remove(&key);
        self.machine.wake();
    }
    /// The space of a key is made.
    pub(crate) fn set_space(&self, key: SpaceKey, space: &Arc<AnySpace>) {
        self.spaces
            .0
            .lock()
            .spaces
            .insert(key, Arc::downgrade(space));
        self.machine.wake();
    }
    /// The first key above this one.
    pub(crate) fn key_after(&self, key: SpaceKey) -> Option<SpaceKey> {
        let known = self.spaces.0.lock();
        let above = (Bound::Excluded(key), Bound::Unbounded);
        known.spaces.range(above).next().map(|(key, _)| *key)
    }
    /// The space of a key: `None` if it has gone, `Some(None)` while it is made or ends.
    pub(crate) fn space_of(&self, key: SpaceKey) -> Option<Option<Arc<AnySpace>>> {
        let known = self.spaces.0.lock();
        known.spaces.get(&key).map(Weak::upgrade)
    }
}
