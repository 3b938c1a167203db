//! The interface to a machine: four small traits, implemented by `arch/x86_64`, `arch/aarch64` and
//! `arch/sim`. All else in this crate is machine-independent.

use crate::addr::{Order, PAGE_SHIFT, PAGE_SIZE, Pfn, PhysAddr, VirtAddr, VirtRange};
use bitflags::bitflags;

/// Entries in one table of any level (4 KiB of 8-byte entries).
pub const TABLE_ENTRIES: usize = 512;

/// A level of the four-level page table, named as in Linux; numbered from the leaf.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Level {
    /// Entries map 4 KiB.
    Pte = 0,
    /// Entries map 2 MiB or point to a table of PTEs.
    Pmd = 1,
    /// Entries map 1 GiB or point to a table of PMDs.
    Pud = 2,
    /// The root: entries point to tables of PUDs.
    Pgd = 3,
}

impl Level {
    /// The next level towards the leaf; `None` from [`Level::Pte`].
    #[inline]
    pub const fn lower(self) -> Option<Level> {
        match self {
            Level::Pte => None,
            Level::Pmd => Some(Level::Pte),
            Level::Pud => Some(Level::Pmd),
            Level::Pgd => Some(Level::Pud),
        }
    }
    /// log2 of the bytes that one entry of this level covers: 12, 21, 30, 39.
    #[inline]
    pub const fn shift(self) -> u32 {
        PAGE_SHIFT + 9 * self as u32
    }
    /// Bytes that one entry of this level covers.
    #[inline]
    pub const fn bytes(self) -> u64 {
        1 << self.shift()
    }
    /// The order of a leaf at this level: 0, 9, 18 (and 27 for the root, which has no leaves).
    #[inline]
    pub const fn order(self) -> Order {
        Order(9 * self as u8)
    }
    /// Index of the entry for `va` in its table of this level.
    #[inline]
    pub const fn index(self, va: VirtAddr) -> usize {
        (va.0 >> self.shift()) as usize & (TABLE_ENTRIES - 1)
    }
}

bitflags! {
    /// Attributes of a leaf entry, common to all machines. Reading is always allowed.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
    pub struct Attrs: u16 {
        /// Writable (on arm64: once the entry is dirty, or the hardware may make it so).
        const WRITE = 1 << 0;
        /// Executable.
        const EXEC = 1 << 1;
        /// Accessible from user mode.
        const USER = 1 << 2;
        /// Global: survives a switch of ASID.
        const GLOBAL = 1 << 3;
        /// Accessed since the bit was cleared. Without it arm64 faults on use if the hardware does
        /// not set it.
        const ACCESSED = 1 << 4;
        /// Written since the bit was cleared.
        const DIRTY = 1 << 5;
        /// arm64's contiguous bit: 16 aligned entries that the TLB may hold as one. Ignored
        /// elsewhere.
        const CONTIG = 1 << 6;
        /// Device memory: uncached, no speculation.
        const DEVICE = 1 << 7;
        /// PROT_NONE: present for the kernel, but absent or inaccessible for user mode.
        const NO_ACCESS = 1 << 8;
        /// Software bit: not written since soft-dirty was cleared, so WRITE is not set until a
        /// write faults. Meaningful only in a tracked VMA; fresh entries lack it.
        const TRACKED = 1 << 9;
    }
}

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
    /// A leaf's bits with WRITE, ACCESSED and DIRTY as before. PROT_NONE and soft-dirty leaves are
    /// unchanged.
    fn writable(raw: u64) -> u64;
    /// Whether the walker has no bit left to set in a read-only leaf: accessed.
    fn is_still(raw: u64) -> bool;
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

/// A table and the index of an entry.
pub type Place = (Pfn, usize);

/// Access by frame to the physical memory that the memory manager owns: page tables and folios,
/// never the kernel's memory. Ordering: see each function.
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
    /// Writes `n` entries from `index` on: `raw`, `raw + step`, and so on; as [`Self::store`], in
    /// any order.
    fn store_run(&self, table: Pfn, index: usize, n: usize, raw: u64, step: u64) {
        let mut raw = raw;
        for index in index..index + n {
            self.store(table, index, raw);
            raw = raw.wrapping_add(step);
        }
    }
    /// Number of entries from `index` on, at most `n`, that equal `raw`, `raw + step`, and so on in
    /// the bits of `mask`. A [`Self::load`] must precede the use of what they point to.
    fn agree(&self, table: Pfn, index: usize, n: usize, raw: u64, step: u64, mask: u64) -> usize {
        let agrees = |i: &usize| {
            let wanted = raw.wrapping_add(*i as u64 * step);
            (self.load(table, index + i) ^ wanted) & mask == 0
        };
        (0..n).take_while(agrees).count()
    }
    /// Replaces the entries from `index` on, at most `n`, while they equal `raw`, `raw + step`, and
    /// so on, by `new`, `new + step`, and so on; returns how many. Only for entries with no bit
    /// left for the walker and with the same frames.
    fn replace_run(
        &self,
        table: Pfn,
        index: usize,
        n: usize,
        raw: u64,
        new: u64,
        step: u64,
    ) -> usize {
        self.copy_run((table, table), index, n, raw, new, step)
    }
    /// [`Self::replace_run`] in the first table that also writes the new entries to the second,
    /// where they are absent. Only for entries with no bit left for the walker, unless `new` is
    /// `raw`. In any order; the frames are already mapped.
    fn copy_run(
        &self,
        (from, to): (Pfn, Pfn),
        index: usize,
        n: usize,
        raw: u64,
        new: u64,
        step: u64,
    ) -> usize {
        let (mut raw, mut copy) = (raw, new);
        for done in 0..n {
            if self.load(from, index + done) != raw {
                return done;
            }
            if copy != raw {
                self.store(from, index + done, copy);
            }
            self.store(to, index + done, copy);
            (raw, copy) = (raw.wrapping_add(step), copy.wrapping_add(step));
        }
        n
    }
    /// Whether `n` entries from `index` on are zero. A [`Self::load`] must precede the use of what
    /// they point to.
    fn is_zero(&self, table: Pfn, index: usize, n: usize) -> bool {
        (index..index + n).all(|index| self.load(table, index) == 0)
    }
    /// Freezes `n` entries of `level` from `index` on: clears `valid` in each nonzero one,
    /// atomically where the walker may set bits, so that none is lost. Returns how many were not
    /// zero.
    fn freeze_run(&self, table: Pfn, index: usize, n: usize, _: Level, valid: u64) -> u32 {
        let mut found = 0;
        for index in index..index + n {
            let mut raw = self.load(table, index);
            found += u32::from(raw != 0);
            while raw & valid != 0 {
                match self.compare_exchange(table, index, raw, raw & !valid) {
                    Ok(()) => break,
                    Err(now) => raw = now,
                }
            }
        }
        found
    }
    /// Moves `n` entries that no CPU walks over absent ones, mapping each nonzero one through `f`;
    /// as [`Self::store`], in any order. The source is zero afterwards. Returns how many were not.
    fn move_run(&self, from: Place, to: Place, n: usize, f: impl Fn(u64) -> u64) -> u32 {
        let mut found = 0;
        for i in 0..n {
            let raw = self.load(from.0, from.1 + i);
            if raw != 0 {
                self.store(from.0, from.1 + i, 0);
                self.store(to.0, to.1 + i, f(raw));
                found += 1;
            }
        }
        found
    }
    /// Moves the entries from `index` on, which no CPU walks, to `into`, leaving zeros.
    fn take_run(&self, table: Pfn, index: usize, into: &mut [u64]) {
        for (i, raw) in into.iter_mut().enumerate() {
            *raw = self.load(table, index + i);
            if *raw != 0 {
                self.store(table, index + i, 0);
            }
        }
    }
    /// Writes the entries from `index` on, which are absent; as [`Self::store`], in any order.
    /// Executable pages were made so before.
    fn put_run(&self, table: Pfn, index: usize, from: &[u64]) {
        for (i, raw) in from.iter().enumerate().filter(|(_, raw)| **raw != 0) {
            self.store(table, index + i, *raw);
        }
    }
    /// Exchanges entry `index` atomically, so that no accessed or dirty bit of the walker is lost.
    fn swap(&self, table: Pfn, index: usize, raw: u64) -> u64;
    /// Replaces `old` by `new` atomically; `Err` is the entry found instead.
    fn compare_exchange(&self, table: Pfn, index: usize, old: u64, new: u64) -> Result<(), u64>;
    /// Fills 2^order frames with zeros.
    fn zero(&self, first: Pfn, order: Order);
    /// Copies 2^order frames.
    fn copy(&self, from: Pfn, to: Pfn, order: Order);
    /// Copies bytes out; the range may cross consecutive frames.
    fn read(&self, from: PhysAddr, into: &mut [u8]);
    /// Copies bytes in; the range may cross consecutive frames.
    fn write(&self, to: PhysAddr, from: &[u8]);
}

/// Body of [`PhysMem::agree`] over entries in memory: eight at a time, as in [`all_zero`].
#[inline]
pub fn agreeing<T>(
    entries: &[T],
    load: impl Fn(&T) -> u64,
    (raw, step, mask): (u64, u64, u64),
) -> usize {
    let wanted = |i: usize| raw.wrapping_add(i as u64 * step);
    let mut found = 0;
    for eight in entries.as_chunks::<8>().0 {
        let differs = |i: usize| load(&eight[i]) ^ wanted(found + i);
        if (0..8).fold(0, |all, i| all | differs(i)) & mask != 0 {
            break;
        }
        found += 8;
    }
    let agrees = |&i: &usize| (load(&entries[i]) ^ wanted(i)) & mask == 0;
    found + (found..entries.len()).take_while(agrees).count()
}

/// Body of [`PhysMem::is_zero`]: eight at a time, as a loop round costs more than an entry.
#[inline]
pub fn all_zero<T>(entries: &[T], load: impl Fn(&T) -> u64) -> bool {
    let (eights, rest) = entries.as_chunks::<8>();
    let bits = |entries: &[T]| entries.iter().fold(0, |bits, entry| bits | load(entry));
    eights.iter().all(|eight| bits(eight) == 0) && bits(rest) == 0
}

/// Body of [`PhysMem::copy_run`] over entries in memory; the caller issues the barriers.
#[inline]
pub fn copying<T>(
    (from, to): (&[T], &[T]),
    (load, store): (impl Fn(&T) -> u64, impl Fn(&T, u64)),
    (mut raw, mut new, step): (u64, u64, u64),
) -> usize {
    let (mut done, change) = (0, raw != new);
    let mut one = |from: &T, to: &T| {
        if load(from) != raw {
            return false;
        }
        if change {
            store(from, new);
        }
        store(to, new);
        (raw, new) = (raw.wrapping_add(step), new.wrapping_add(step));
        true
    };
    // By eight: a loop round costs as much as an entry.
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

/// An address-space tag in the TLB. 0 is "no tag": such a space is flushed on each switch to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct Asid(pub u16);

/// TLB maintenance (shootdown) on every CPU that may hold the translation. Each call returns when
/// it is complete everywhere.
pub trait Tlb: Send + Sync + 'static {
    /// Drops leaf entries of `asid` for `range`; `stride` is the level of the old leaves. With
    /// `tables`, also drops cached pointers to tables that covered the range.
    fn flush_range(&self, asid: Asid, range: VirtRange, stride: Level, tables: bool);
    /// Ends a spurious fault: the entry for `va`, on which this CPU faulted, gained a right; frame,
    /// size and contiguity are unchanged. Other CPUs may fault once more on a stale entry, so there
    /// is no shootdown. Returns whether an invalidation was needed.
    fn widened(&self, asid: Asid, va: VirtAddr) -> bool;
    /// [`Self::flush_range`] for the one PTE at `va`.
    #[inline]
    fn flush_page(&self, asid: Asid, va: VirtAddr) {
        let range = VirtRange::new(va, va + PAGE_SIZE);
        self.flush_range(asid, range, Level::Pte, false);
    }
    /// Drops everything of `asid`.
    fn flush_asid(&self, asid: Asid);
    /// Drops kernel (global) entries of `range`.
    fn flush_kernel(&self, range: VirtRange);
}

/// The CPUs.
pub trait Cpu: Send + Sync + 'static {
    /// Number of the current CPU, from 0.
    fn id(&self) -> usize;
    /// Number of CPUs.
    fn count(&self) -> usize;
    /// Number of hardware ASIDs, 0 included; 1 if there are none.
    fn asids(&self) -> usize;
    /// Makes `root` the user half of this CPU's address space.
    fn activate(&self, root: Pfn, asid: Asid);
}

/// The four as one value: tests own many small machines.
pub trait Machine: Send + Sync + 'static {
    /// Its entry format.
    type Pte: PteFormat;
    /// Its memory.
    type Mem: PhysMem;
    /// Its TLBs.
    type Tlb: Tlb;
    /// Its CPUs.
    type Cpu: Cpu;
    /// The memory.
    fn mem(&self) -> &Self::Mem;
    /// The TLBs.
    fn tlb(&self) -> &Self::Tlb;
    /// The CPUs.
    fn cpu(&self) -> &Self::Cpu;
    /// The highest leaf level of this machine's CPUs: at most the format's.
    fn largest_leaf(&self) -> Level {
        Self::Pte::LARGEST_LEAF
    }
    /// Prepares a zeroed root table for a user address space: a machine with one root for both
    /// halves copies its kernel half into it.
    fn prepare_root(&self, root: Pfn);

    /// Size of a step of a long verb before it calls [`Self::breathe`]: entries read, about 100
    /// instructions each; at least 2.
    #[inline]
    fn step(&self) -> u32 {
        1024
    }
    /// Yields between two steps of a long verb, with no lock held. Returns whether the thread is to
    /// end: a verb that may stop early then does.
    fn breathe(&self) -> bool {
        false
    }
    /// Sleeps, with no lock held, until `ready`, tested first and after each [`Self::wake`].
    /// `false`: the thread is to end instead.
    fn wait(&self, ready: &mut dyn FnMut() -> bool) -> bool {
        while !ready() {
            core::hint::spin_loop();
        }
        true
    }
    /// Wakes every thread in [`Self::wait`].
    fn wake(&self) {}
}
