//! Rows of page-table entries in memory, for both machines' [`mm::arch::PhysMem`], which adds the
//! barriers: all accesses here are relaxed. Loops go by eight, as a loop round costs as much as an
//! entry.

use core::sync::atomic::{AtomicU64, Ordering};
use mm::arch::Series;

/// An entry.
#[inline(always)]
fn get(entry: &AtomicU64) -> u64 {
    entry.load(Ordering::Relaxed)
}

#[inline(always)]
fn set(entry: &AtomicU64, raw: u64) {
    entry.store(raw, Ordering::Relaxed);
}

/// Number of entries that agree with `like` in the bits of `mask`, up to the first that does not.
#[inline]
pub fn agree(entries: &[AtomicU64], like: Series, mask: u64) -> usize {
    let mut found = 0;
    for eight in entries.as_chunks::<8>().0 {
        let differs = |i: usize| get(&eight[i]) ^ like.at(found + i);
        if (0..8).fold(0, |all, i| all | differs(i)) & mask != 0 {
            break;
        }
        found += 8;
    }
    let agrees = |&i: &usize| (get(&entries[i]) ^ like.at(i)) & mask == 0;
    found + (found..entries.len()).take_while(agrees).count()
}

/// Whether all entries are zero.
#[inline]
pub fn is_zero(entries: &[AtomicU64]) -> bool {
    let (eights, rest) = entries.as_chunks::<8>();
    let bits = |entries: &[AtomicU64]| entries.iter().fold(0, |bits, entry| bits | get(entry));
    eights.iter().all(|eight| bits(eight) == 0) && bits(rest) == 0
}

/// Replaces the entries while they are those of `old` by `new` and so on, and writes these to `to`,
/// too; returns how many.
#[inline]
pub fn copy(from: &[AtomicU64], to: &[AtomicU64], mut old: Series, mut new: u64) -> usize {
    let (mut done, change) = (0, old.raw != new);
    let mut one = |from: &AtomicU64, to: &AtomicU64| {
        if get(from) != old.raw {
            return false;
        }
        if change {
            set(from, new);
        }
        set(to, new);
        (old, new) = (old.after(1), new.wrapping_add(old.step));
        true
    };
    let ((eights, from_rest), (to_eights, to_rest)) = (from.as_chunks::<8>(), to.as_chunks::<8>());
    for (from, to) in eights.iter().zip(to_eights) {
        for i in 0..8 {
            if !one(&from[i], &to[i]) {
                return done + i;
            }
        }
        done += 8;
    }
    let rest = from_rest.iter().zip(to_rest);
    done + rest.take_while(|(from, to)| one(from, to)).count()
}

/// Replaces the entries while they are those of `old` by `new` and so on; returns how many.
#[inline]
pub fn replace(entries: &[AtomicU64], mut old: Series, mut new: u64) -> usize {
    let mut one = |entry: &AtomicU64| {
        let same = get(entry) == old.raw;
        if same {
            set(entry, new);
            (old, new) = (old.after(1), new.wrapping_add(old.step));
        }
        same
    };
    let (eights, rest) = entries.as_chunks::<8>();
    let mut done = 0;
    for eight in eights {
        for entry in eight {
            if !one(entry) {
                return done;
            }
            done += 1;
        }
    }
    done + rest.iter().take_while(|entry| one(entry)).count()
}

/// Moves the entries that are not zero, each mapped through `f`; returns how many.
#[inline]
pub fn carry(from: &[AtomicU64], to: &[AtomicU64], f: impl Fn(u64) -> u64) -> u32 {
    let mut found = 0;
    let mut one = |from: &AtomicU64, to: &AtomicU64| {
        let raw = get(from);
        if raw != 0 {
            set(to, f(raw));
            set(from, 0);
            found += 1;
        }
    };
    let ((eights, from_rest), (to_eights, to_rest)) = (from.as_chunks::<8>(), to.as_chunks::<8>());
    for (from, to) in eights.iter().zip(to_eights) {
        (0..8).for_each(|i| one(&from[i], &to[i]));
    }
    let rest = from_rest.iter().zip(to_rest);
    rest.for_each(|(from, to)| one(from, to));
    found
}
