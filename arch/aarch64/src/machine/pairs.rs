//! Rows of page-table entries by LDP and STP: two entries by one instruction, each of them an
//! access of its own to other observers (Arm ARM DDI 0487, B2.2.1 "Requirements for single-copy
//! atomicity").

use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering};
use mm::arch::Series;

/// [`arch_boot::rows::copy`] as far as whole steps of eight entries go.
#[inline(always)]
pub(crate) fn copy(from: &[AtomicU64], to: &[AtomicU64], old: Series, new: u64) -> usize {
    let new = Series { raw: new, ..old };
    let mut done = 0;
    let eights = from.as_chunks::<8>().0.iter().zip(to.as_chunks::<8>().0);
    for (from, to) in eights {
        let (found, wanted) = (load(from), eight(old.after(done)));
        if !(0..8).fold(true, |same, i| same & (found[i] == wanted[i])) {
            break;
        }
        if new.raw != old.raw {
            store(from, eight(new.after(done)));
        }
        store(to, eight(new.after(done)));
        done += 8;
    }
    done
}

/// Writes `new` to the entries.
#[inline(always)]
pub(crate) fn fill(entries: &[AtomicU64], mut new: Series) {
    let (eights, rest) = entries.as_chunks::<8>();
    for entries in eights {
        store(entries, eight(new));
        new = new.after(8);
    }
    for entry in rest {
        entry.store(new.raw, Ordering::Relaxed);
        new = new.after(1);
    }
}

#[inline(always)]
fn eight(series: Series) -> [u64; 8] {
    core::array::from_fn(|i| series.at(i))
}

/// Eight entries, by relaxed loads.
#[inline(always)]
fn load(entries: &[AtomicU64; 8]) -> [u64; 8] {
    let (a, b, c, d, e, f, g, h): (u64, u64, u64, u64, u64, u64, u64, u64);
    // SAFETY: what is read is borrowed.
    unsafe {
        asm!(
            "ldp {a}, {b}, [{at}]", "ldp {c}, {d}, [{at}, #16]", "ldp {e}, {f}, [{at}, #32]", "ldp {g}, {h}, [{at}, #48]",
            at = in(reg) entries, a = out(reg) a, b = out(reg) b, c = out(reg) c, d = out(reg) d, e = out(reg) e,
            f = out(reg) f, g = out(reg) g, h = out(reg) h, options(nostack, readonly, preserves_flags),
        );
    }
    [a, b, c, d, e, f, g, h]
}

/// Eight entries, by relaxed stores.
#[inline(always)]
fn store(entries: &[AtomicU64; 8], [a, b, c, d, e, f, g, h]: [u64; 8]) {
    // SAFETY: what is written is borrowed, and the borrow is exclusive.
    unsafe {
        asm!(
            "stp {a}, {b}, [{at}]", "stp {c}, {d}, [{at}, #16]", "stp {e}, {f}, [{at}, #32]", "stp {g}, {h}, [{at}, #48]",
            at = in(reg) entries, a = in(reg) a, b = in(reg) b, c = in(reg) c, d = in(reg) d, e = in(reg) e,
            f = in(reg) f, g = in(reg) g, h = in(reg) h, options(nostack, preserves_flags),
        );
    }
}
