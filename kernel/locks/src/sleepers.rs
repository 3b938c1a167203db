//! Sleepers by key: what futex(2) does with its waiters, without the words and the threads.
//!
//! Who sleeps on a key is in the list of the key's bucket, under the lock of that bucket. A sleeper
//! knows in which bucket it is by its [`Place`], which changes under the lock of the bucket that it
//! names; when the sleeper moves to another bucket, under both.
//!
//! ```text
//! sleeper                                    waker
//! -------                                    -----
//! locks the bucket                           changes the word
//! reads the word: another value? ends        locks the bucket
//! enters the list                            takes the sleeper out; its place says so
//! sleeps until it is out, or a time-out      wakes it
//! leaves: was it taken out before?
//! ```

use crate::atomic::{AtomicUsize, Ordering};
use crate::{Apart, Lock};
use alloc::vec::Vec;
use fallible::OutOfMemory;

/// What is slept on.
pub trait Key: Clone + PartialEq {
    /// A number that is the same for equal keys; the buckets are chosen by its lower bits.
    fn hash(&self) -> usize;
}

/// Who sleeps.
pub trait Sleeper {
    /// Its place, which lies at the same address while it sleeps.
    fn place(&self) -> &Place;
    /// Wakes it; it is in no list any more.
    fn wake(&self);
}

/// In which bucket a sleeper is.
#[derive(Debug)]
pub struct Place(
    /// 1 + the number of the bucket; 0: in none.
    AtomicUsize,
);

impl Default for Place {
    fn default() -> Self {
        Self::new()
    }
}

impl Place {
    /// In none.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Place(AtomicUsize::new(0))
    }
    /// In none (loom's atomics have no constant constructor).
    #[cfg(loom)]
    pub fn new() -> Self {
        Place(AtomicUsize::new(0))
    }

    /// Whether the sleeper is in no list: it was woken, or has never entered one.
    pub fn is_out(&self) -> bool {
        self.bucket().is_none()
    }

    fn bucket(&self) -> Option<usize> {
        // Acquire pairs with `set`: what was written before the wake-up is seen after it.
        self.0.load(Ordering::Acquire).checked_sub(1)
    }

    /// Under the lock of the bucket that it names so far, if it names one, and of the new one.
    fn set(&self, bucket: Option<usize>) {
        let number = bucket.map_or(0, |bucket| bucket + 1);
        self.0.store(number, Ordering::Release);
    }
}

/// A sleeper in a list.
#[derive(Debug)]
struct Entry<K, S> {
    key: K,
    bits: u32,
    sleeper: S,
}

/// In the order in which they came.
type List<K, S> = Vec<Entry<K, S>>;

/// The sleepers, in `BUCKETS` lists, each under a lock of rank `RANK`.
#[derive(Debug)]
pub struct Sleepers<K, S, const RANK: u8, const BUCKETS: usize> {
    buckets: [Apart<Lock<List<K, S>, RANK>>; BUCKETS],
}

impl<K: Key, S: Sleeper, const RANK: u8, const BUCKETS: usize> Default
    for Sleepers<K, S, RANK, BUCKETS>
{
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Key, S: Sleeper, const RANK: u8, const BUCKETS: usize> Sleepers<K, S, RANK, BUCKETS> {
    /// Nobody sleeps.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Sleepers {
            buckets: [const { Apart(Lock::new(Vec::new())) }; BUCKETS],
        }
    }
    /// Nobody sleeps (loom's atomics have no constant constructor).
    #[cfg(loom)]
    pub fn new() -> Self {
        Sleepers {
            buckets: core::array::from_fn(|_| Apart(Lock::new(Vec::new()))),
        }
    }

    fn bucket(key: &K) -> usize {
        key.hash() % BUCKETS
    }

    /// Enters a sleeper, unless `look` fails, which is called under the lock: a waker that changes
    /// what `look` looks at, and calls [`Self::wake`] afterwards, finds the sleeper.
    pub fn enter<E: From<OutOfMemory>>(
        &self,
        key: K,
        bits: u32,
        sleeper: S,
        look: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let number = Self::bucket(&key);
        let mut list = self.buckets[number].lock();
        look()?;
        fallible::reserve(&mut *list, 1)?;
        sleeper.place().set(Some(number));
        list.push(Entry { key, bits, sleeper });
        Ok(())
    }

    /// Ends the sleep of the sleeper with this place. Returns whether it was woken before: that
    /// counts, whatever else has ended the sleep.
    pub fn leave(&self, place: &Place) -> bool {
        loop {
            let Some(number) = place.bucket() else {
                return true;
            };
            let mut list = self.buckets[number].lock();
            // It may have been woken or moved before the lock was taken.
            if place.bucket() != Some(number) {
                continue;
            }
            let is_it = |entry: &Entry<K, S>| core::ptr::eq(entry.sleeper.place(), place);
            let at = list.iter().position(is_it);
            let entry = at.map(|at| list.remove(at));
            give_back(&mut list);
            place.set(None);
            drop(list);
            drop(entry);
            return false;
        }
    }

    /// Wakes the first `count` sleepers of a key whose bits meet `bits`. Returns how many.
    pub fn wake(&self, key: &K, count: usize, bits: u32) -> usize {
        let mut list = self.buckets[Self::bucket(key)].lock();
        take_out(&mut list, key, count, bits)
    }

    /// Wakes the first `wake` sleepers of `from` and makes the next `carry` sleep on `to`; nothing
    /// if `look` fails, which is called under the locks of both. Returns how many it woke or moved.
    /// Without memory for more in the other list those are woken, too.
    pub fn requeue<E>(
        &self,
        from: &K,
        to: &K,
        wake: usize,
        carry: usize,
        look: impl FnOnce() -> Result<(), E>,
    ) -> Result<usize, E> {
        let (here, there) = (Self::bucket(from), Self::bucket(to));
        if here == there {
            let mut list = self.buckets[here].lock();
            look()?;
            let woken = take_out(&mut list, from, wake, u32::MAX);
            let moved = list.iter_mut().filter(|entry| entry.key == *from);
            let moved = moved.take(carry).map(|entry| entry.key = to.clone());
            return Ok(woken + moved.count());
        }
        let (mut list, mut target) = Lock::lock_both(&self.buckets[here], &self.buckets[there]);
        look()?;
        let woken = take_out(&mut list, from, wake, u32::MAX);
        let all = list.iter().filter(|entry| entry.key == *from).count();
        if fallible::reserve(&mut *target, all.min(carry)).is_err() {
            return Ok(woken + take_out(&mut list, from, carry, u32::MAX));
        }
        let of_it = list.extract_if(.., |entry| entry.key == *from);
        let moved = of_it.take(carry).map(|mut entry| {
            entry.key = to.clone();
            entry.sleeper.place().set(Some(there));
            target.push(entry);
        });
        let moved = moved.count();
        give_back(&mut list);
        Ok(woken + moved)
    }
}

/// Takes the first `count` sleepers of a key whose bits meet `bits` out of a list and wakes them.
fn take_out<K: Key, S: Sleeper>(list: &mut List<K, S>, key: &K, count: usize, bits: u32) -> usize {
    let hit = list.extract_if(.., |entry| entry.key == *key && entry.bits & bits != 0);
    let woken = hit.take(count).map(|entry| {
        entry.sleeper.place().set(None);
        entry.sleeper.wake();
    });
    let woken = woken.count();
    give_back(list);
    woken
}

/// Gives the memory of a list back that many have slept in and that is empty now. Room for a few
/// stays: whoever sleeps next needs none.
fn give_back<K, S>(list: &mut List<K, S>) {
    const FEW: usize = 8;
    if list.capacity() > FEW && list.is_empty() {
        *list = Vec::new();
    }
}
