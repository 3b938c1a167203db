//! Rows of page-table entries in memory, for both machines' [`mm::arch::PhysMem`], which adds the
//! barriers: all accesses here are relaxed. Loops go by eight, as a loop round costs as much as an
//! entry.

use core::cell::Cell;
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

/// Copies the entries while they are those of `old`, as those of `new`, to both sides; returns how
/// many.
#[inline]
pub fn copy(from: &[AtomicU64], to: &[AtomicU64], mut old: Series, mut new: Series) -> usize {
    let (mut done, change) = (0, old.raw != new.raw);
    let mut one = |from: &AtomicU64, to: &AtomicU64| {
        if get(from) != old.raw {
            return false;
        }
        if change {
            set(from, new.raw);
        }
        set(to, new.raw);
        (old, new) = (old.after(1), new.after(1));
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

/// Moves the entries that are not zero, each mapped through `f`; returns how many.
#[inline]
pub fn carry(from: &[AtomicU64], to: &[AtomicU64], f: impl Fn(u64) -> u64) -> u32 {
    let mut found = 0;
    by_eight(from, to, |from, to| {
        let raw = get(from);
        if raw != 0 {
            set(to, f(raw));
            set(from, 0);
            found += 1;
        }
    });
    found
}

/// Moves the entries to `into`, leaving zeros.
#[inline]
pub fn take(from: &[AtomicU64], into: &mut [u64]) {
    let into = Cell::from_mut(into).as_slice_of_cells();
    by_eight(from, into, |entry, raw| {
        raw.set(get(entry));
        set(entry, 0);
    });
}

/// Writes the entries.
#[inline]
pub fn put(to: &[AtomicU64], from: &[u64]) {
    by_eight(to, from, |entry, raw| set(entry, *raw));
}

/// Calls `one` for each pair.
#[inline(always)]
fn by_eight<A, B>(a: &[A], b: &[B], mut one: impl FnMut(&A, &B)) {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    for (a, b) in a.iter().zip(b) {
        (0..8).for_each(|i| one(&a[i], &b[i]));
    }
    a_rest.iter().zip(b_rest).for_each(|(a, b)| one(a, b));
}
