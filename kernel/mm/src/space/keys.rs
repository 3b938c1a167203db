//! The protection keys of an address space (pkeys(7)): which the program has, and the one of memory
//! that may only be executed.

use crate::arch::Key;
use crate::vma::Prot;

/// Sets of keys, one bit each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keys {
    /// Those of the program: key 0 from the start.
    allocated: u16,
    /// Those that nobody has.
    free: u16,
    /// The key of memory that may only be executed, which is in neither set, as a protection has
    /// it; empty: there is none.
    execute_only: Prot,
}

impl Keys {
    /// The keys of a new program on a machine that has so many; one is as none, as in Linux.
    pub fn new(keys: u8) -> Self {
        let all = match keys {
            0 | 1 => 0,
            some => u16::MAX >> (Key::MOST - some),
        };
        Keys {
            allocated: all & 1,
            free: all & !1,
            execute_only: Prot::empty(),
        }
    }

    /// Takes the lowest free key out of its set.
    fn take(&mut self) -> Option<Key> {
        let key = Key(self.free.trailing_zeros() as u8);
        self.free &= self.free.wrapping_sub(1);
        (key.0 < Key::MOST).then_some(key)
    }
    /// Gives the program a key; `None` if there is none left.
    pub fn allocate(&mut self) -> Option<Key> {
        let key = self.take()?;
        self.allocated |= 1 << key.0;
        Some(key)
    }
    /// Takes a key back; whether the program had it. Memory that has it keeps it.
    pub fn free(&mut self, key: Key) -> bool {
        let had = self.has(key);
        if had {
            self.allocated &= !(1 << key.0);
            self.free |= 1 << key.0;
        }
        had
    }
    /// Whether the program has the key.
    pub fn has(&self, key: Key) -> bool {
        key.0 < Key::MOST && self.allocated >> key.0 & 1 != 0
    }
    /// The key of memory that may only be executed, if there is one or one is free.
    pub fn for_execute_only(&mut self) -> Option<Key> {
        if self.execute_only.is_empty() {
            // Key 0 may be free, and is no such key.
            let zero = self.free & 1;
            self.free &= !1;
            let key = self.take();
            self.free |= zero;
            self.execute_only = Prot::empty().with_key(key?);
        }
        Some(self.execute_only.key())
    }
    /// The protection of memory that mprotect(2) gives `rights`, and no key: it keeps its own, but
    /// for that of memory that may only be executed.
    #[inline(always)]
    pub fn keep(&self, old: Prot, rights: Prot) -> Prot {
        match old & Prot::KEY {
            key if key == self.execute_only => rights,
            key => rights | key,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn a_program_begins_with_key_0_and_may_get_the_others() {
        let mut keys = Keys::new(16);
        assert!(keys.has(Key(0)) && !keys.has(Key(1)) && !keys.has(Key(16)));
        let got: Vec<_> = core::iter::from_fn(|| keys.allocate()).collect();
        assert_eq!(got, (1..16).map(Key).collect::<Vec<_>>());
        assert!(keys.free(Key(7)) && !keys.free(Key(7)));
        assert_eq!((keys.allocate(), keys.allocate()), (Some(Key(7)), None));
    }

    #[test]
    fn a_machine_without_keys_has_not_even_key_0() {
        for keys in [0, 1] {
            let mut keys = Keys::new(keys);
            assert!(!keys.has(Key(0)) && !keys.free(Key(0)));
            assert_eq!((keys.allocate(), keys.for_execute_only()), (None, None));
        }
    }

    #[test]
    fn the_key_of_what_may_only_be_executed_is_not_the_programs() {
        let mut keys = Keys::new(3);
        // Key 0 is free now, and still no key for that.
        assert!(keys.free(Key(0)));
        let key = keys.for_execute_only();
        assert_eq!((key, keys.for_execute_only()), (Some(Key(1)), key));
        assert!(!keys.has(Key(1)) && !keys.free(Key(1)));
        assert_eq!(
            (keys.allocate(), keys.allocate()),
            (Some(Key(0)), Some(Key(2)))
        );
        let old = Prot::EXEC.with_key(Key(1));
        assert_eq!(keys.keep(old, Prot::READ), Prot::READ);
        let old = Prot::EXEC.with_key(Key(2));
        assert_eq!(keys.keep(old, Prot::READ), Prot::READ.with_key(Key(2)));
    }
}
