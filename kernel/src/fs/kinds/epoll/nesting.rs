//! Sets in sets: a wake-up goes through all that contain a file, one inside the other, so there are
//! never many, and no circle.

use super::Epoll;
use crate::base::errno::{Errno, Result};
use crate::fs::open::file::OpenFile;
use alloc::sync::Weak;
use alloc::vec::Vec;
use core::any::Any;

/// Sets in each other, at most.
const DEEPEST: usize = 5;
/// Ways from a set to those around it or in it, at most: a wake-up takes each.
const MOST_WAYS: usize = 100;

/// The sets around one and in one; those that are no more are left out when one is added.
#[derive(Default)]
pub struct Nest {
    inner: Vec<Weak<Epoll>>,
    outer: Vec<Weak<Epoll>>,
}

/// A direction.
type Side = fn(&mut Nest) -> &mut Vec<Weak<Epoll>>;
const INNER: Side = |nest| &mut nest.inner;
const OUTER: Side = |nest| &mut nest.outer;

/// The set that an open file is.
pub fn epoll_of(file: &OpenFile) -> Option<&Epoll> {
    let ops: &dyn Any = file.ops();
    ops.downcast_ref()
}

impl Epoll {
    /// Enters that this set watches `inner`; ELOOP, EINVAL for too many ways, ENOMEM.
    pub(super) fn contain(&self, inner: &Epoll) -> Result {
        let (below, above) = (self.reach(inner, INNER)?, inner.reach(self, OUTER)?);
        if below.levels + above.levels > DEEPEST {
            return Err(Errno::ELOOP);
        }
        if below.ways * above.ways > MOST_WAYS {
            return Err(Errno::EINVAL);
        }
        self.note(INNER, inner)?;
        inner
            .note(OUTER, self)
            .inspect_err(|_| self.forget(INNER, inner))
    }

    /// This set no longer watches `inner`.
    pub(super) fn release(&self, inner: &Epoll) {
        self.forget(INNER, inner);
        inner.forget(OUTER, self);
    }

    fn note(&self, side: Side, other: &Epoll) -> Result {
        let mut nest = self.nest.lock();
        let list = side(&mut nest);
        list.retain(|one| one.strong_count() > 0);
        Ok(fallible::push(list, other.me.clone())?)
    }

    /// Takes one entry away: a set may be watched under several descriptors.
    fn forget(&self, side: Side, other: &Epoll) {
        let mut nest = self.nest.lock();
        let list = side(&mut nest);
        if let Some(at) = list.iter().position(|one| one.ptr_eq(&other.me)) {
            list.swap_remove(at);
        }
    }

    /// Which sets there are from `start` on; ELOOP when this one is among them, or there are too
    /// many levels; EINVAL for too many ways.
    fn reach(&self, start: &Epoll, side: Side) -> Result<Reach> {
        // A set that is reached in several ways is there as often.
        let mut level = Vec::new();
        fallible::push(&mut level, start.me.clone())?;
        let mut ways = 1;
        for levels in 1..=DEEPEST {
            let mut next: Vec<Weak<Epoll>> = Vec::new();
            for one in level.iter().filter_map(Weak::upgrade) {
                if core::ptr::eq(self, &*one) {
                    return Err(Errno::ELOOP);
                }
                let mut nest = one.nest.lock();
                let list = side(&mut nest);
                list.retain(|one| one.strong_count() > 0);
                if next.len() + list.len() > MOST_WAYS {
                    return Err(Errno::EINVAL);
                }
                fallible::reserve(&mut next, list.len())?;
                next.extend_from_slice(list);
            }
            if next.is_empty() {
                return Ok(Reach { levels, ways });
            }
            ways = ways.max(next.len());
            level = next;
        }
        Err(Errno::ELOOP)
    }
}

/// Sets around one or in one, itself among them.
struct Reach {
    levels: usize,
    /// To the level with most.
    ways: usize,
}
