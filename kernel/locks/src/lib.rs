//! Spin locks with ranks: which lock may be taken while which are held is checked in debug builds.
//! A crate of its own: the memory manager, the kernel and its machines use it.
//!
//! The kernel runs with interrupts off and is never preempted, so a holder always makes progress
//! and the lock does not need to disable interrupts.
//!
//! Which locks are fair: nobody who comes later has a [`Lock`] or a [`Shape`] before a CPU that has
//! waited for it for long, and those have it in the order of their tickets (`line.rs`). CPUs get a
//! [`TicketLock`] in the order in which they ask. A [`BitGuard`] goes to whoever finds it open.
#![cfg_attr(target_os = "none", no_std)]
// Each unsafe block has a SAFETY line.
#![allow(unsafe_code)]

extern crate alloc;

mod apart;
mod atomic;
mod bit;
mod contention;
mod line;
pub mod mutant;
mod ranks;
mod rendezvous;
mod shape;
mod sleepers;
mod ticket;

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use line::Line;
use mutant::Mutant;
use ranks::ranks;

pub use apart::Apart;
pub use bit::{BitGuard, Turns};
pub use contention::{Contention, contention, forget_contention};
pub use ranks::held;
pub use ranks::set_cpu;
pub use rendezvous::Rendezvous;
pub use shape::{ReadGuard, Reader, Shape, WriteGuard};
pub use sleepers::{Key, Place, Sleeper, Sleepers};
pub use ticket::{TicketLock, Wait};

/// Constants of ranks, and `NAMES`, which has each with its name.
#[macro_export]
macro_rules! named_ranks {
    ($($(#[$about:meta])* pub const $name:ident: u8 = $rank:literal;)*) => {
        $($(#[$about])* pub const $name: u8 = $rank;)*
        /// The ranks and their names.
        pub const NAMES: &[(u8, &str)] = &[$(($rank, stringify!($name))),*];
    };
}

/// A spin lock; `RANK` orders nesting: it may be taken only while every held lock has a lower rank
/// (debug builds panic).
#[derive(Debug, Default)]
pub struct Lock<T, const RANK: u8> {
    line: Line,
    value: UnsafeCell<T>,
}

/// Holds a [`Lock`]; unlocks on drop.
#[must_use]
#[derive(Debug)]
pub struct Guard<'a, T, const RANK: u8>(&'a Lock<T, RANK>);

// SAFETY: the lock hands out one guard at a time, so sharing the lock only ever moves the value
// between threads.
unsafe impl<T: Send, const RANK: u8> Sync for Lock<T, RANK> {}

impl<T, const RANK: u8> Lock<T, RANK> {
    /// An open lock.
    #[cfg(not(loom))]
    pub const fn new(value: T) -> Self {
        Self {
            line: Line::new(),
            value: UnsafeCell::new(value),
        }
    }
    /// An open lock (loom's atomics have no constant constructor).
    #[cfg(loom)]
    pub fn new(value: T) -> Self {
        Self {
            line: Line::new(),
            value: UnsafeCell::new(value),
        }
    }

    /// Takes the lock, spinning until it is open.
    #[inline]
    pub fn lock(&self) -> Guard<'_, T, RANK> {
        ranks(|held| held.take(RANK));
        self.line.take(RANK);
        Guard(self)
    }

    /// Takes the lock if it is open and nobody has a ticket. The rank does not matter: a caller
    /// that does not wait cannot deadlock.
    #[inline]
    pub fn try_lock(&self) -> Option<Guard<'_, T, RANK>> {
        if !self.line.try_take() {
            return None;
        }
        ranks(|held| held.note(RANK));
        Some(Guard(self))
    }

    /// Takes two locks of one rank, in the order of their addresses: two CPUs that take the same
    /// two do not wait for each other. Panics when both are one.
    pub fn lock_both<'a>(
        one: &'a Self,
        other: &'a Self,
    ) -> (Guard<'a, T, RANK>, Guard<'a, T, RANK>) {
        assert!(!core::ptr::eq(one, other), "a lock is taken twice");
        let guard = |lock: &'a Self| {
            lock.line.take(RANK);
            Guard(lock)
        };
        // The rank counts as held until the first of the two guards is dropped.
        ranks(|held| held.take(RANK));
        if (&raw const *one).addr() < (&raw const *other).addr() {
            let first = guard(one);
            (first, guard(other))
        } else {
            let first = guard(other);
            (guard(one), first)
        }
    }

    /// The value, without locking: a mutable borrow of the lock excludes guards.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

impl<T, const RANK: u8> Guard<'_, T, RANK> {
    /// Opens the lock while `f` runs, and takes it again, also when `f` panics. Returns what `f`
    /// returned, and whether nobody had the lock meanwhile.
    #[inline(always)]
    pub fn reopen<R>(&mut self, f: impl FnOnce() -> R) -> (R, bool) {
        // Of all guards that have a lock open at a time, each has a place of its own.
        let mark = &raw const *self as usize;
        ranks(|held| held.leave(RANK));
        self.0.line.open(Some(mark));
        let mut retake = Retake::<RANK> {
            line: &self.0.line,
            mark,
            undisturbed: false,
        };
        let result = f();
        retake.take();
        let undisturbed = retake.undisturbed;
        core::mem::forget(retake);
        (result, undisturbed)
    }
}

/// Takes a lock again that [`Guard::reopen`] has opened.
struct Retake<'a, const RANK: u8> {
    line: &'a Line,
    mark: usize,
    undisturbed: bool,
}

impl<const RANK: u8> Retake<'_, RANK> {
    #[inline(always)]
    fn take(&mut self) {
        ranks(|held| held.take(RANK));
        self.undisturbed = match mutant::on(Mutant::ReopenedIfOpen) {
            true => self.line.try_take(),
            false => self.line.take_from(self.mark),
        };
        if !self.undisturbed {
            self.line.take(RANK);
        }
    }
}

impl<const RANK: u8> Drop for Retake<'_, RANK> {
    fn drop(&mut self) {
        self.take();
    }
}

impl<T, const RANK: u8> Deref for Guard<'_, T, RANK> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this guard is the only one, so no one else has a reference to the value.
        unsafe { &*self.0.value.get() }
    }
}

impl<T, const RANK: u8> DerefMut for Guard<'_, T, RANK> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard is the only one and is borrowed mutably.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T, const RANK: u8> Drop for Guard<'_, T, RANK> {
    #[inline]
    fn drop(&mut self) {
        ranks(|held| held.leave(RANK));
        self.0.line.open(None);
    }
}

/// Whether a panic is under way: then destructors do not panic again, so that its message is kept.
pub fn panicking() -> bool {
    #[cfg(not(target_os = "none"))]
    return std::thread::panicking();
    #[cfg(target_os = "none")]
    false
}
