//! Merging of neighbours into one VMA, as /proc/PID/maps shows it: equal protection and flags, and
//! pages of the upper one that follow those of the lower one.

use super::types::{AnonVma, Backing, Vma, VmaFlags};
use crate::arch::{Machine, PteFormat};
use alloc::sync::Arc;

/// Whether `high` may be joined to `low`.
pub fn joinable<M: Machine>(low: &Vma<M>, high: &Vma<M>) -> bool {
    low.range.end == high.range.start
        && low.prot == high.prot
        && same_flags(low, high)
        && continues(low, high)
        && one_history(low.anon_vma, high.anon_vma)
}

/// The history that one of two neighbours may take from the other, when they could be one but for
/// their rights. Inherited histories are not shared.
pub fn kin<M: Machine>(low: &Vma<M>, high: &Vma<M>) -> Option<AnonVma> {
    let one_key = M::Pte::KEYS == 1 || low.prot.key() == high.prot.key();
    let alike = low.range.end == high.range.start
        && one_key
        && same_flags(low, high)
        && continues(low, high);
    let history = high.anon_vma.or(low.anon_vma);
    history.filter(|h| alike && !h.inherited)
}

/// Two histories stay apart; a VMA without one merges with any that is not inherited.
fn one_history(low: Option<AnonVma>, high: Option<AnonVma>) -> bool {
    match (low, high) {
        (Some(low), Some(high)) => low.id == high.id,
        (Some(one), None) | (None, Some(one)) => !one.inherited,
        (None, None) => true,
    }
}

/// Equal, with one monitor, but for TRACKED and MARKERS: VMAs merge whether or not soft-dirty was
/// cleared, or a marker installed.
fn same_flags<M: Machine>(low: &Vma<M>, high: &Vma<M>) -> bool {
    let other = VmaFlags::TRACKED | VmaFlags::MARKERS;
    (low.flags ^ high.flags) - other == VmaFlags::empty() && low.monitor == high.monitor
}

fn continues<M: Machine>(low: &Vma<M>, high: &Vma<M>) -> bool {
    match (&low.backing, &high.backing) {
        (Backing::Anon, Backing::Anon) => low.moved == high.moved,
        (
            Backing::Object {
                object: a,
                offset: oa,
                file: fa,
            },
            Backing::Object {
                object: b,
                offset: ob,
                file: fb,
            },
        ) => {
            let same = Arc::ptr_eq(a, b) && oa + low.range.pages() == *ob && same_file(fa, fb);
            // As in Linux, areas of huge pages are never joined.
            same && a.huge_order().is_none()
        }
        _ => false,
    }
}

fn same_file(
    a: &Option<Arc<dyn super::MappedFile>>,
    b: &Option<Arc<dyn super::MappedFile>>,
) -> bool {
    match (a, b) {
        (None, None) => true,
        // The same open file, as in Linux: then the join drops no last reference under the lock of
        // the space.
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        _ => false,
    }
}
