//! The seam to a page-table entry format.

use super::{Attrs, Level};
use crate::addr::{Order, PAGE_SIZE, Pfn, VirtAddr};

/// A decoded entry. The raw bits never leave `table/`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    /// Nothing is mapped.
    Absent,
    /// Points to a table of the next lower level.
    Table(Pfn),
    /// Points to a shared PTE table (`table::share`): nothing below is writable, whatever the
    /// leaves say.
    Shared(Pfn),
    /// Maps frames of a folio, of the level's size.
    Leaf {
        /// The first frame, naturally aligned to the level.
        pfn: Pfn,
        /// Rights and use.
        attrs: Attrs,
    },
}

/// A page-table entry format: pure bits, no state, testable on any host.
pub trait PteFormat: Send + Sync + 'static {
    /// One past the last user address.
    const USER_END: VirtAddr;
    /// The highest level that can hold a leaf.
    const LARGEST_LEAF: Level;
    /// log2 of the entries in a contiguous block (4 on arm64), `None` where there is no such bit.
    const CONTIG_ORDER: Option<Order>;
    /// Number of protection keys: 1, the one of all memory, where leaves have none.
    const KEYS: u8;
    /// Whether a live entry changes size, frame or contiguity only through an absent entry and a
    /// flush (arm64: break-before-make).
    const BREAK_BEFORE_MAKE: bool;
    /// Difference between leaves of consecutive frames: the frame number is at the same bits of
    /// every entry, bit 12 and up.
    const NEXT_FRAME: u64 = PAGE_SIZE;
    /// The bits in which entries of a run may differ: accessed, dirty, contiguous.
    fn loose_bits(raw: u64) -> u64;
    /// The valid bit: without it the hardware ignores all others.
    const VALID: u64 = 1;
    /// A nonzero entry before [`Self::VALID`] was cleared to freeze it.
    fn thaw(raw: u64) -> u64;
    /// Decodes an entry of a table of `level`.
    fn decode(raw: u64, level: Level) -> Entry;
    /// Encodes a leaf. `pfn` is aligned to the level; `level` is at most [`Self::LARGEST_LEAF`].
    fn leaf(pfn: Pfn, attrs: Attrs, level: Level) -> u64;
    /// The frame of a PTE; 0 if absent.
    fn frame(raw: u64) -> Pfn;
    /// A leaf's bits without WRITE; ACCESSED and DIRTY stay.
    fn read_only(raw: u64) -> u64;
    /// A leaf's bits with WRITE, ACCESSED and DIRTY as before. Leaves of PROT_NONE, soft-dirty and
    /// write-protected ones are unchanged.
    fn writable(raw: u64) -> u64;
    /// Whether the walker has no bit left to set in a read-only leaf: accessed.
    fn is_still(raw: u64) -> bool;
    /// A leaf's bits without ACCESSED.
    fn unused(raw: u64) -> u64;
    /// Whether the walker has no bit left to set in a writable leaf: accessed and dirty. Then a
    /// plain store may replace it.
    fn is_settled(raw: u64) -> bool;
    /// A PTE's bits with `bits` added; anything but a leaf is unchanged.
    #[inline(always)]
    fn add(raw: u64, bits: Attrs) -> u64 {
        match Self::decode(raw, Level::Pte) {
            Entry::Leaf { pfn, attrs } => Self::leaf(pfn, attrs | bits, Level::Pte),
            _ => raw,
        }
    }
    /// Encodes an entry that points to the table in frame `pfn`. Permissions come from the leaves
    /// alone.
    fn table(pfn: Pfn) -> u64;
    /// Encodes a PMD entry that points to a shared table: nothing below is writable.
    fn shared_table(pfn: Pfn) -> u64;
}
