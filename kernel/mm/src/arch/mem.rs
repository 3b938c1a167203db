//! The seam to physical memory: page-table entries, one or a row of them, and the contents of
//! frames.

use super::Level;
use crate::addr::{Order, Pfn, PhysAddr};

/// `n` entries of a table from `index` on. What the hardware walker may do to them meanwhile is
/// said by the types around it, one for each promise.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The table.
    pub table: Pfn,
    /// Index of the first entry.
    pub index: usize,
    /// Number of entries.
    pub n: usize,
}

/// A row that CPUs walk: they set accessed and dirty bits at any time, so that only an atomic
/// read-modify-write loses none.
#[derive(Clone, Copy, Debug)]
pub struct Live(pub Row);

/// A row that CPUs may walk with no bit left to set, or whose entries are only copied: what was
/// read is still so when a plain store replaces it.
#[derive(Clone, Copy, Debug)]
pub struct Settled(pub Row);

/// A row that CPUs may walk and that is overwritten blindly: its entries are absent, or their
/// accessed and dirty bits are of no use any more.
#[derive(Clone, Copy, Debug)]
pub struct Blank(pub Row);

/// A row that no CPU walks: unlinked or frozen, and flushed.
#[derive(Clone, Copy, Debug)]
pub struct Unwalked(pub Row);

/// The entries `raw`, `raw + step` and so on.
#[derive(Clone, Copy, Debug)]
pub struct Series {
    /// The first.
    pub raw: u64,
    /// The difference: 0, or [`super::PteFormat::NEXT_FRAME`].
    pub step: u64,
}

impl Series {
    /// All zero.
    pub const ZERO: Series = Series { raw: 0, step: 0 };

    /// All alike.
    #[inline]
    pub const fn same(raw: u64) -> Series {
        Series { raw, step: 0 }
    }
    /// The entry at `index`.
    #[inline]
    pub const fn at(self, index: usize) -> u64 {
        self.raw.wrapping_add(index as u64 * self.step)
    }
    /// The series without its first `n` entries.
    #[inline(always)]
    pub const fn after(self, n: usize) -> Series {
        Series {
            raw: self.at(n),
            ..self
        }
    }
}

/// Access by frame to the physical memory that the memory manager owns: page tables and folios,
/// never the kernel's memory. Ordering: see each function; a row's entries are accessed in any
/// order. Functions with a [`Row`] are inlined: called, it would go through memory.
pub trait PhysMem: Send + Sync + 'static {
    /// Reads entry `index` of a table (acquire: pairs with [`Self::store`]).
    fn load(&self, table: Pfn, index: usize) -> u64;
    /// Writes entry `index` of a table (release, and visible to the walker before the next user
    /// instruction).
    fn store(&self, table: Pfn, index: usize, raw: u64);
    /// [`Self::store`] of an entry whose frame is already mapped: first-time work is done.
    #[inline]
    fn store_again(&self, table: Pfn, index: usize, raw: u64) {
        self.store(table, index, raw);
    }
    /// Exchanges entry `index` atomically, so that no accessed or dirty bit of the walker is lost.
    fn swap(&self, table: Pfn, index: usize, raw: u64) -> u64;
    /// Replaces `old` by `new` atomically; `Err` is the entry found instead.
    fn compare_exchange(&self, table: Pfn, index: usize, old: u64, new: u64) -> Result<(), u64>;

    /// Number of entries that equal those of `like` in the bits of `mask`, up to the first that
    /// does not. A [`Self::load`] must precede the use of what they point to.
    fn agree(&self, row: Row, like: Series, mask: u64) -> usize;
    /// Whether all entries are zero. A [`Self::load`] must precede the use of what they point to.
    fn is_zero(&self, row: Row) -> bool;
    /// Writes `entries`; as [`Self::store`].
    fn store_run(&self, row: Blank, entries: Series);
    /// Replaces the entries, while they equal those of `old`, by `new` and so on, by the same step;
    /// returns how many. The frames stay.
    #[inline]
    fn replace_run(&self, row: Settled, old: Series, new: u64) -> usize {
        self.copy_run(row, row.0.table, old, new)
    }
    /// [`Self::replace_run`] that also writes the new entries at the same indices of table `to`,
    /// where they are absent. The frames are already mapped.
    fn copy_run(&self, from: Settled, to: Pfn, old: Series, new: u64) -> usize;
    /// Freezes entries of `level`: clears `valid` in each nonzero one, and loses no bit of the
    /// walker. Returns how many were not zero.
    fn freeze_run(&self, row: Live, level: Level, valid: u64) -> u32;
    /// Moves entries, mapping each nonzero one through `f`; as [`Self::store`]. The source is zero
    /// afterwards. Returns how many were not.
    fn move_run(&self, from: Unwalked, to: Blank, f: impl Fn(u64) -> u64) -> u32;

    /// Fills 2^order frames with zeros.
    fn zero(&self, first: Pfn, order: Order);
    /// Copies 2^order frames.
    fn copy(&self, from: Pfn, to: Pfn, order: Order);
    /// Copies bytes out; the range may cross consecutive frames.
    fn read(&self, from: PhysAddr, into: &mut [u8]);
    /// Copies bytes in; the range may cross consecutive frames.
    fn write(&self, to: PhysAddr, from: &[u8]);
    /// Lets `f` read and write `len` bytes in their place, which the caller alone can reach.
    fn in_place(&self, at: PhysAddr, len: u64, f: &mut dyn FnMut(&mut [u8]));
    /// What was written to a page may be code, and mapped already: it is fetched anew.
    fn code_changed(&self, _at: PhysAddr) {}
}
