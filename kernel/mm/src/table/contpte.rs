//! arm64's contiguous bit on PTEs: 16 aligned entries of one folio that the TLB may hold as one
//! translation of 64 KiB. Only this file and `contpte/` set or clear [`Attrs::CONTIG`], which is
//! hidden outside `table/`. Where the format has no such bit all of it compiles to nothing.
//!
//! # What a folded block is
//! 16 present leaves, aligned in virtual and in physical space, of consecutive frames of one folio,
//! with the same attributes but for ACCESSED and DIRTY (Arm ARM DDI 0487, D8.7.1 "The Contiguous
//! bit": 16 entries at level 3 of the 4 KiB granule, aligned to 128 bytes of the table and to 64
//! KiB of memory, "with consistent attributes and permissions"). The hardware may set the access
//! flag and clear `AP[2]` in any one entry of the set (rule ICQTNL), so both are read as the OR
//! over the block, which a rewrite stores in every entry. The TLB need not hold the block as one
//! (IVNXYF): a flush covers all of it.
//!
//! # What may happen to a folded block
//! ```text
//!                    fold: break-before-make
//!   16 plain entries -----------------------> folded --+ whole: zap, new rights, write-protect (fork),
//!         ^                                    ^  |  ^ |        a bit that software marks (no FEAT_HAFDBS)
//!         |      unfold: break-before-make     |  |  +-+
//!         +------------------------------------|--+
//!              a part changes                  |  zapped or moved whole: absent, then flushed
//!                                              |  v
//!                 installed whole, at once     absent
//! ```
//! - **Fold and unfold** change the contiguous bit of live entries, which goes only through invalid
//!   entries and a flush: with the bit in some valid entries of the set and not in others a TLB may
//!   hold overlapping entries and answer with neither (D8.7.1.1 "Misprogramming the Contiguous
//!   bit", RQTRPM and RNGLXZ; the sequence is "Using break-before-make when updating translation
//!   table entries", D8.16.1). Invalid entries among them do no harm (IPGVGZ).
//! - **Installed folded at once**: absent entries are never cached, so there is nothing to break.
//!   The entries are written one by one; a walker that meets the first may translate the whole
//!   block already, to what is being written.
//! - **Whole-block changes of rights** (WRITE, EXEC, ACCESSED, DIRTY) need no break-before-make:
//!   they change neither frame, size, type nor contiguity. Between the first entry and the flush a
//!   TLB may answer with the old rights or the new, for any page of the block (RJQQTC: with those
//!   of any one entry), as it may for any entry whose rights change; after the flush all 16 say the
//!   same. So every entry of the block is written before the flush, and the flush covers all of the
//!   block.
//! - **Whole-block zap and move**: each entry becomes absent and the flush covers the block. Until
//!   then a walker may still use the entries that are left, and set bits in them; it translates to
//!   the same frames, which are freed after the flush.
//! - **PROT_NONE**: an entry with NO_ACCESS is absent for the hardware and is never folded: such a
//!   change drops the bit, which is a break without a make. The way back is an install.
//! - **A bit that software marks** (no FEAT_HAFDBS): all 16 entries get it
//!   ([`Entries::add_bits`]). With it in one alone, the others would stay read-only for the
//!   hardware, which is another right, and a TLB may answer from any of them for ever.

mod bits;
mod moved;
mod range;
mod validate;

pub(crate) use validate::validate;

use super::edit::Entries;
use super::node::{Present, PteTable, frames, leaf_of};
use crate::addr::{Order, PAGE_SIZE, Pfn, VirtAddr, VirtRange};
use crate::arch::{Attrs, Level, Machine, PteFormat};
use crate::manager::Mm;
use crate::mutant::{self, Mutant};
use crate::stat::Event;
use core::ops::Range;

/// Bits that the walker sets, and in which the entries of a folded block may differ.
const USED: Attrs = Attrs::ACCESSED.union(Attrs::DIRTY);

/// Entries of a block: 16, or 1 where the format has no contiguous bit.
#[inline]
pub(super) const fn span<M: Machine>() -> usize {
    match M::Pte::CONTIG_ORDER {
        Some(order) => 1 << order.0,
        None => 1,
    }
}

/// Bytes of a block.
#[inline]
const fn bytes<M: Machine>() -> u64 {
    span::<M>() as u64 * PAGE_SIZE
}

/// Indices of the block around an entry.
#[inline]
pub(super) fn block<M: Machine>(index: usize) -> Range<usize> {
    let first = index & !(span::<M>() - 1);
    first..first + span::<M>()
}

/// Start addresses of the blocks that a range overlaps.
#[inline]
fn blocks<M: Machine>(part: VirtRange) -> impl Iterator<Item = VirtAddr> {
    let first = part.start.align_down(bytes::<M>()).0;
    // None where the format has no contiguous bit.
    let end = M::Pte::CONTIG_ORDER.map_or(first, |_| part.end.0);
    (first..end).step_by(bytes::<M>() as usize).map(VirtAddr)
}

/// Whether the raw attributes are those of a folded block.
#[inline]
pub(super) fn folded<M: Machine>(attrs: Attrs) -> bool {
    M::Pte::CONTIG_ORDER.is_some() && attrs.contains(Attrs::CONTIG)
}

/// Whether these bits are a leaf of a folded block.
#[inline]
pub(super) fn is_folded<M: Machine>(raw: u64) -> bool {
    leaf_of::<M>(raw, Level::Pte).is_some_and(|leaf| folded::<M>(leaf.attrs))
}

/// The first of a block's entries, which `leaf` reads, if the block is foldable and not folded.
#[inline(always)]
fn complete<M: Machine>(mm: &Mm<M>, leaf: impl Fn(usize) -> Option<Present>) -> Option<Present> {
    let (order, first) = (M::Pte::CONTIG_ORDER?, leaf(0)?);
    // Fast path: the tests that small folios fail come first, the folio's head last.
    if first.pfn.0 & (order.pages() - 1) != 0 && !mutant::on(Mutant::FoldMisaligned)
        || first.attrs.intersects(Attrs::CONTIG | Attrs::NO_ACCESS)
        || !one_folio(mm, first.pfn, order)
    {
        return None;
    }
    let follows = |i: usize| {
        leaf(i).is_some_and(|other| {
            other.pfn == first.pfn + i as u64
                && ((other.attrs - USED) == (first.attrs - USED)
                    || mutant::on(Mutant::FoldNonUniform))
        })
    };
    let last = span::<M>() - 1;
    (follows(last) && (1..last).all(follows)).then_some(first)
}

impl<M: Machine> PteTable<'_, M> {
    /// The external view of a present entry with these attributes: no CONTIG, ACCESSED and DIRTY of
    /// the block.
    #[inline]
    pub fn seen(self, index: usize, attrs: Attrs) -> Attrs {
        if !folded::<M>(attrs) {
            return attrs;
        }
        let mut all = attrs - Attrs::CONTIG;
        let mut entries = block::<M>(index);
        if mutant::on(Mutant::ReadAllButLast) {
            entries.end -= 1;
        }
        for other in entries {
            if all.contains(USED) || mutant::on(Mutant::ReadOne) {
                break;
            }
            if let Some(Present { attrs, .. }) = self.present(other) {
                all |= attrs & USED;
            }
        }
        all
    }

    /// The entry at `index`, or the folded block that begins there, up to `end`.
    #[inline]
    pub fn block_at(self, index: usize, end: usize) -> Range<usize> {
        let is_folded = |leaf: Present| folded::<M>(leaf.attrs);
        match self.present(index).is_some_and(is_folded) {
            true => index..block::<M>(index).end.min(end),
            false => index..index + 1,
        }
    }

    /// Spreads ACCESSED and DIRTY over the entries of a former block, which no CPU walks.
    #[inline]
    pub fn share_use(self, entries: Range<usize>) {
        if entries.len() == 1 || mutant::on(Mutant::ReadOne) {
            return;
        }
        let use_of = |index| self.present(index).map(|leaf| leaf.attrs & USED);
        let used = entries.clone().filter_map(use_of).collect();
        let written = entries.map(|index| u64::from(self.add(index, used))).sum();
        self.mm.count(Event::EntryWrites, written);
    }
}

/// Entries of a run, relative to its first, to be installed with CONTIG at once: the whole blocks
/// of `n` pages of one folio from frame `pfn`, at `va`, over entries that are absent and flushed.
/// Empty if there is none, or the switch is off. [`Entries::fold`] handles the blocks that the ends
/// complete.
#[inline]
pub(super) fn attrs_for_run<M: Machine>(
    mm: &Mm<M>,
    va: VirtAddr,
    pfn: Pfn,
    n: usize,
) -> Range<usize> {
    let span = span::<M>();
    if M::Pte::CONTIG_ORDER.is_none() || n < span || !mm.switches().contpte() {
        return 0..0;
    }
    let at = Level::Pte.index(va) & (span - 1);
    if at as u64 != pfn.0 & (span as u64 - 1) && !mutant::on(Mutant::FoldMisaligned) {
        return 0..0;
    }
    let first = (span - at) & (span - 1);
    let end = n.saturating_sub(first) / span * span + first;
    first..end
}

/// Whether a folio of this order may have folded blocks: a block lies in one folio.
#[inline]
pub(super) fn may_fold<M: Machine>(order: Order) -> bool {
    M::Pte::CONTIG_ORDER.is_some_and(|block| order >= block) || mutant::on(Mutant::FoldAcrossFolios)
}

/// Whether the aligned block of frames at `pfn` lies in one folio, which is aligned too.
fn one_folio<M: Machine>(mm: &Mm<M>, pfn: Pfn, order: Order) -> bool {
    mm.frames().get(mm.frames().head(pfn)).order() >= order
        || mutant::on(Mutant::FoldAcrossFolios)
        || mutant::on(Mutant::FoldMisaligned)
}

impl<M: Machine> Entries<'_, '_, M> {
    /// Folds the block around `va` if it is complete and the switch is on. Fast path: it is usually
    /// incomplete, which its ends show. Performs the break-before-make flush, with all that the
    /// gather owes.
    #[inline]
    pub fn fold(&mut self, va: VirtAddr) {
        let (table, start) = (self.table, block::<M>(Level::Pte.index(va)).start);
        if M::Pte::CONTIG_ORDER.is_some()
            && table.mm.switches().contpte()
            && complete(table.mm, |i| table.present(start + i)).is_some()
        {
            self.remake(va, Attrs::CONTIG);
            self.table.mm.count(Event::ContpteFold, 1);
        }
    }

    /// Unfolds the block around `va` if it is folded. Performs the break-before-make flush, with
    /// all that the gather owes.
    #[inline]
    pub fn unfold(&mut self, va: VirtAddr) {
        if M::Pte::CONTIG_ORDER.is_none() {
            return;
        }
        let entry = self.table.present(Level::Pte.index(va));
        if entry.is_some_and(|leaf| folded::<M>(leaf.attrs)) && !mutant::on(Mutant::NoUnfold) {
            self.remake(va, Attrs::empty());
            self.table.mm.count(Event::ContpteUnfold, 1);
        }
    }

    /// Rewrites the 16 entries of a complete block with CONTIG as in `contig`: break, flush, make.
    fn remake(&mut self, va: VirtAddr, contig: Attrs) {
        use crate::arch::PhysMem;
        let (table, entries) = (self.table, block::<M>(Level::Pte.index(va)));
        let first = table.present(entries.start);
        let first = first.expect("a block that is remade is complete");
        let old = frames::<M>(first.raw);
        let mut attrs = first.attrs;
        for (i, index) in entries.clone().enumerate() {
            let raw = match broken(contig) {
                true => table.mem().load(table.frame, index),
                false => table.mem().swap(table.frame, index, 0),
            };
            // Most have the bits of the first and need no decoding.
            if raw != old.at(i) {
                let leaf = leaf_of::<M>(raw, Level::Pte);
                attrs |= leaf.expect("a block that is remade is complete").attrs;
            }
        }
        let start = va.align_down(bytes::<M>());
        if !broken(contig) && !mutant::on(Mutant::BreakWithoutFlush) {
            self.gather.break_range(start, bytes::<M>());
        }
        let attrs = (attrs - forgotten() - Attrs::CONTIG) | contig;
        table.write_run(entries.start, entries.len(), first.pfn, attrs);
        table.mm.count(Event::EntryWrites, 2 * span::<M>() as u64);
    }
}

/// Whether a mutant omits the break.
#[inline]
fn broken(contig: Attrs) -> bool {
    let fold = contig.contains(Attrs::CONTIG);
    fold && mutant::on(Mutant::FoldWithoutBreak) || !fold && mutant::on(Mutant::UnfoldWithoutBreak)
}

/// Bits that a mutant drops.
#[inline]
fn forgotten() -> Attrs {
    if mutant::on(Mutant::AccessedLost) {
        Attrs::ACCESSED
    } else if mutant::on(Mutant::DirtyLost) {
        Attrs::DIRTY
    } else {
        Attrs::empty()
    }
}
