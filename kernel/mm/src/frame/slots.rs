//! Swap slots: frames of the frame table behind the last one of memory. A slot has metadata, and no
//! memory: it is a place for a page that is not in memory, or need not be.
//!
//! A private folio that is swapped has as many slots as pages, side by side and aligned as it is:
//! they are a block of [`Kind::Swap`], from a buddy allocator of their own, and what names them (a
//! swap entry for each page) is counted by the same account as what maps a folio. So whatever
//! copies, moves or drops the entries of a folio does the same to those of its slots.
//!
//! The contents of slots are in memory, or stored, by *units* of [`UNIT`] or, of smaller folios and
//! where memory is in pieces, by the page; see [`Place`].

use super::meta::Kind;
use super::table::FrameTable;
use super::zone::{AllocRequest, Reserve, Zone};
use crate::addr::{Order, Pfn, PhysAddr};
use crate::sync::{AtomicU64, Ordering};
use arrayvec::ArrayVec;

/// The largest part of a block of slots that is stored, or brought back, by itself.
pub(crate) const UNIT: Order = Order(4);

/// The frames of a unit's pages.
pub(crate) type Pages = ArrayVec<Pfn, { UNIT.pages() as usize }>;

/// Whether so few pages of a folio of at most a unit are used, a bit for each, that it costs less
/// to store and to load them one by one: fewer than three quarters. A page that goes and comes back
/// by itself takes some 4/3 of the instructions of one among 16 (docs/pressure.md).
pub(crate) fn is_sparse(used: u32, order: Order) -> bool {
    u64::from(used.count_ones()) * 4 < order.pages() * 3
}

/// Beside the bits for pages that were used: the unit is in pages.
pub(crate) const IN_PAGES: u32 = 1 << 31;
/// And these are stored together while all of them are in memory and alone.
pub(crate) const TOGETHER: u32 = 1 << 30;

/// Beside those of swap there are so many slots, for folios that are moved ([`Which::Moved`]).
pub const MOVING: u64 = 512;

/// Which pages get slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which {
    /// All of them.
    All,
    /// Those that were not used lately.
    Cold,
    /// All of them, for as long as their folio is moved: whether swap is on or not. Nothing is
    /// stored of it meanwhile.
    Moved,
}

/// Where the contents of a unit are: the word of its first slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// In memory from this frame on. The folio there has a reference of the unit.
    Here(Pfn),
    /// The same, while they are compressed; the number tells it from another time, when they were
    /// used and parked again.
    Storing(Pfn, u32),
    /// In the store. The addresses of further pieces are in the words of the next slots.
    Stored(Kept),
    /// The same, while they are brought back.
    Loading(Kept),
    /// Nowhere: the object that they are of has taken them back.
    Empty,
}

/// What the word of a unit says about its compressed bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Kept {
    /// How many; 0: all bytes are the same.
    pub len: usize,
    /// The address of the first piece, or the byte.
    pub first: PhysAddr,
}

/// Pieces are aligned to as many bytes.
const ALIGN: u32 = 7;
const KEPT_AT: u32 = 2;
const FIRST_AT: u32 = 18;
const PFN_BITS: u32 = 40;
/// The word of [`Place::Empty`]: no length is so large.
const EMPTY: u64 = !0;
/// How often something is stored before its number comes again.
pub(crate) const TIMES: u32 = 1 << (64 - KEPT_AT - PFN_BITS);

impl Place {
    /// From a word.
    #[inline]
    pub fn of(word: u64) -> Self {
        let pfn = Pfn(word >> KEPT_AT & ((1 << PFN_BITS) - 1));
        let time = (word >> (KEPT_AT + PFN_BITS)) as u32;
        let kept = Kept {
            len: (word >> KEPT_AT & 0xffff) as usize,
            first: PhysAddr(word >> FIRST_AT << ALIGN),
        };
        match word & 3 {
            _ if word == EMPTY => Place::Empty,
            0 => Place::Here(pfn),
            1 => Place::Storing(pfn, time),
            2 => Place::Stored(kept),
            _ => Place::Loading(kept),
        }
    }
    /// The first frame, if they are in memory.
    pub fn frame(self) -> Option<Pfn> {
        match self {
            Place::Here(pfn) | Place::Storing(pfn, _) => Some(pfn),
            Place::Stored(_) | Place::Loading(_) | Place::Empty => None,
        }
    }
    /// As a word.
    #[inline]
    pub fn word(self) -> u64 {
        let kept = |kept: Kept, tag| {
            kept.first.0 >> ALIGN << FIRST_AT | (kept.len as u64) << KEPT_AT | tag
        };
        match self {
            Place::Here(pfn) => pfn.0 << KEPT_AT,
            Place::Storing(pfn, time) => {
                u64::from(time) << (KEPT_AT + PFN_BITS) | pfn.0 << KEPT_AT | 1
            }
            Place::Stored(bytes) => kept(bytes, 2),
            Place::Loading(bytes) => kept(bytes, 3),
            Place::Empty => EMPTY,
        }
    }
}

/// The slots that are free, and how many may be used.
pub struct Slots {
    zone: Zone,
    reserved: u64,
    /// Changed under the lock of all slots.
    most: AtomicU64,
}

impl Slots {
    /// All slots of the table; so many are for swap.
    pub fn new(table: &FrameTable, swap: u64) -> Self {
        let all = table.slots();
        let zone = Zone::new("Swap", all, table, &[all]);
        let reserved = swap.min(zone.managed);
        Slots {
            most: AtomicU64::new(reserved),
            reserved,
            zone,
        }
    }
    /// How many there are for swap, whether they may be used or not.
    pub fn reserved(&self) -> u64 {
        self.reserved
    }
    /// How many may be used: all from boot on, none while swap is off.
    pub fn total(&self) -> u64 {
        self.most.load(Ordering::Relaxed)
    }
    /// How many are used; those of a swap that is being turned off, too.
    pub fn used(&self) -> u64 {
        self.zone.managed - self.zone.free_frames()
    }
    /// How many more may be used.
    pub fn free(&self) -> u64 {
        self.total().saturating_sub(self.used())
    }
    /// Changes how many may be used. The caller has the lock of all slots.
    pub(crate) fn allow(&self, most: u64) {
        self.most.store(most, Ordering::Relaxed);
    }
    /// Takes 2^order slots side by side, for swap or for a folio that `moves`; the account of what
    /// names them is the caller's to begin.
    pub(crate) fn take(&self, table: &FrameTable, order: Order, moves: bool) -> Option<Pfn> {
        if !moves && self.free() < order.pages() {
            return None;
        }
        let request = AllocRequest {
            cpu: 0,
            order,
            kind: Kind::Swap,
            reserve: Reserve::Kernel,
        };
        let head = self.zone.alloc(table, request)?;
        table.get(head).set(Kind::Swap, order);
        Some(head)
    }
    /// Gives them back.
    pub(crate) fn give(&self, table: &FrameTable, head: Pfn, order: Order) {
        table.get(head).set_cached(order);
        let index = table.index(head);
        self.zone.free(table, order, core::iter::once(index));
    }
}
