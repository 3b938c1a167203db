//! A map in one piece of memory.

use crate::OutOfMemory;
use crate::grow::{Growable, reserve, reserve_exact};
use alloc::collections::TryReserveError;
use alloc::vec::Vec;
use core::cmp::Ordering;

/// Values by key, in the order of the keys, in a vector: growth can fail, and does not need a node
/// for each few elements. Insertion and removal move what follows, so it is for tables that a limit
/// keeps small. Without elements it holds no memory.
pub struct SortedMap<K, V>(Vec<(K, V)>);

impl<K: Ord, V> SortedMap<K, V> {
    /// An empty one.
    pub const fn new() -> Self {
        SortedMap(Vec::new())
    }
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.0.len()
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Where a key is, or would be.
    #[inline]
    fn find(&self, key: &K) -> Result<usize, usize> {
        // Fast path: keys that grow come, and often go, at the end.
        let Some(((last, _), before)) = self.0.split_last() else {
            return Err(0);
        };
        match last.cmp(key) {
            Ordering::Equal => Ok(before.len()),
            Ordering::Less => Err(self.0.len()),
            Ordering::Greater => before.binary_search_by(|(at, _)| at.cmp(key)),
        }
    }
    /// The value of a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.find(key).ok().map(|at| &self.0[at].1)
    }
    /// The value of a key, to be changed.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.find(key).ok().map(|at| &mut self.0[at].1)
    }

    /// The value of a key, or a new one.
    pub fn get_or_insert(
        &mut self,
        key: K,
        new: impl FnOnce() -> V,
    ) -> Result<&mut V, OutOfMemory> {
        let at = match self.find(&key) {
            Ok(at) => at,
            Err(at) => {
                reserve(&mut self.0, 1)?;
                self.0.insert(at, (key, new()));
                at
            }
        };
        Ok(&mut self.0[at].1)
    }
    /// Sets the value of a key; returns the old one. Without memory nothing is changed.
    pub fn insert(&mut self, key: K, value: V) -> Result<Option<V>, OutOfMemory> {
        let mut value = Some(value);
        let place = self.get_or_insert(key, || value.take().expect("it is taken once"))?;
        Ok(value.map(|value| core::mem::replace(place, value)))
    }
    /// Takes the value of a key out.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let (_, value) = self.0.remove(self.find(key).ok()?);
        give_back(&mut self.0);
        Some(value)
    }

    /// All elements.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.0.iter().map(|(key, value)| (key, value))
    }
    /// The elements from a key on.
    pub fn from(&self, key: &K) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        let (Ok(at) | Err(at)) = self.find(key);
        self.0[at..].iter().map(|(key, value)| (key, value))
    }
}

/// Gives memory back of a vector that needs a quarter of it or less, if the smaller one can be had.
pub fn give_back<T>(vector: &mut Vec<T>) {
    const FEW: usize = 64;
    if vector.is_empty() {
        *vector = Vec::new();
    } else if vector.capacity() > FEW && vector.len() * 4 <= vector.capacity() {
        let mut less = Vec::new();
        if reserve_exact(&mut less, vector.len() * 2).is_ok() {
            less.append(vector);
            *vector = less;
        }
    }
}

impl<K: Ord, V> Default for SortedMap<K, V> {
    fn default() -> Self {
        SortedMap::new()
    }
}

impl<K, V> Growable for SortedMap<K, V> {
    fn room(&self) -> usize {
        self.0.room()
    }
    fn try_grow(&mut self, more: usize) -> Result<(), TryReserveError> {
        self.0.try_grow(more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::vec::Vec;

    /// What a map of std does, it does, too.
    #[test]
    fn it_is_a_map() {
        let (mut map, mut like) = (SortedMap::new(), BTreeMap::new());
        let mut random = 1_u64;
        for step in 0..20_000 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let key = (random >> 33) % 50;
            match (random >> 60) % 4 {
                0 => assert_eq!(map.insert(key, step), Ok(like.insert(key, step))),
                1 => {
                    let new = *like.entry(key).or_insert(step);
                    assert_eq!(map.get_or_insert(key, || step).map(|at| *at), Ok(new));
                }
                _ => assert_eq!(map.remove(&key), like.remove(&key)),
            }
            assert_eq!(map.get(&key), like.get(&key));
            assert_eq!(map.get_mut(&key), like.get_mut(&key));
            assert_eq!((map.len(), map.is_empty()), (like.len(), like.is_empty()));
            assert!(map.iter().eq(like.iter()));
            let from: Vec<_> = map.from(&key).collect();
            assert!(from.into_iter().eq(like.range(key..)));
        }
    }

    #[test]
    fn an_empty_one_holds_no_memory() {
        let mut map = SortedMap::new();
        reserve(&mut map, 10).unwrap();
        map.insert(1, 2).unwrap();
        assert!(map.room() >= 9);
        map.remove(&1);
        assert_eq!(map.room(), 0);
    }
}
