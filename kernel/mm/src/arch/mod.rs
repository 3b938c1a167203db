//! The interface to a machine: four small traits, implemented by `arch/x86_64`, `arch/aarch64` and
//! `proof/sim`. All else in this crate is machine-independent.

mod format;
mod mem;

pub use format::{Entry, PteFormat};
pub use mem::{Blank, Live, PhysMem, Row, Series, Settled, Unwalked};

use crate::addr::{Order, PAGE_SHIFT, PAGE_SIZE, Pfn, VirtAddr, VirtRange};
use bitflags::bitflags;
use core::any::Any;

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
    /// Attributes of a leaf entry, common to all machines. Reading is always allowed. Most
    /// stand one place below their bits on x86_64.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
    pub struct Attrs: u16 {
        /// Writable (on arm64: once the entry is dirty, or the hardware may make it so).
        const WRITE = 1 << 0;
        /// Accessible from user mode.
        const USER = 1 << 1;
        /// Executable.
        const EXEC = 1 << 2;
        /// Device memory: uncached, no speculation.
        const DEVICE = 1 << 3;
        /// Accessed since the bit was cleared. Without it arm64 faults on use if the hardware does
        /// not set it.
        const ACCESSED = 1 << 4;
        /// Written since the bit was cleared.
        const DIRTY = 1 << 5;
        /// arm64's contiguous bit: 16 aligned entries that the TLB may hold as one. Ignored
        /// elsewhere.
        const CONTIG = 1 << 6;
        /// Global: survives a switch of ASID.
        const GLOBAL = 1 << 7;
        /// PROT_NONE: present for the kernel, but absent or inaccessible for user mode.
        const NO_ACCESS = 1 << 8;
        /// Software bit: not written since soft-dirty was cleared, so WRITE is not set until a
        /// write faults. Meaningful only in a tracked VMA; fresh entries lack it.
        const TRACKED = 1 << 9;
        /// Software bit: write-protected by userfaultfd (`table::userfault`), so WRITE is not set.
        const UFFD_WP = 1 << 10;
        /// The protection key ([`Key`]), where the format has keys.
        const KEY = 0xf << Key::SHIFT;
        /// No page but a marker (`table::marker`), as no page of a program is global.
        const MARKER = Self::NO_ACCESS.bits() | Self::GLOBAL.bits();
    }
}

bitflags! {
    /// Accesses to data that a key refuses (PKEY_DISABLE_*).
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Refused: u32 {
        /// All of them.
        const ACCESS = 1;
        /// Writes.
        const WRITE = 2;
    }
}

impl Attrs {
    /// The protection key.
    #[inline]
    pub const fn key(self) -> Key {
        Key((self.intersection(Attrs::KEY).bits() >> Key::SHIFT) as u8)
    }
}

/// A protection key (pkeys(7)): which pair of bits in a register of each thread may refuse its
/// accesses to a page, beside what the entry says. Key 0 is that of all memory which was given no
/// other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct Key(pub u8);

impl Key {
    /// The lowest bit of [`Attrs::KEY`].
    pub(crate) const SHIFT: u32 = 11;
    /// The most keys that a format has.
    pub const MOST: u8 = 16;

    /// The key as attributes of an entry.
    #[inline]
    pub const fn attrs(self) -> Attrs {
        Attrs::from_bits_retain((self.0 as u16) << Self::SHIFT)
    }
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
    /// Ends spurious faults of this CPU: leaves of `stride` in `range`, on one of which it faulted
    /// or which it may use next, gained rights; frame, size and contiguity are unchanged. Other
    /// CPUs may fault once more on a stale entry, so there is no shootdown. Returns whether an
    /// invalidation was needed.
    fn widened(&self, asid: Asid, range: VirtRange, stride: Level) -> bool;
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

/// Most CPUs of a machine.
pub const CPUS: usize = 64;

/// The CPUs.
pub trait Cpu: Send + Sync + 'static {
    /// Number of the current CPU, from 0.
    fn id(&self) -> usize;
    /// Number of CPUs, at most [`CPUS`].
    fn count(&self) -> usize;
    /// Number of hardware ASIDs, 0 included; 1 if there are none.
    fn asids(&self) -> usize;
    /// Makes `root` the user half of this CPU's address space.
    fn activate(&self, root: Pfn, asid: Asid);
    /// Has another CPU call [`crate::Mm::answer`] soon: when it next can be interrupted, or waits
    /// for another CPU.
    fn interrupt(&self, number: usize);
    /// Whether the running thread's register refuses its accesses to data by this key.
    fn refuses_key(&self, key: Key, write: bool) -> bool {
        let _ = (key, write);
        false
    }
    /// Sets what the running thread's register refuses by this key.
    fn set_key(&self, key: Key, refused: Refused) {
        let _ = (key, refused);
    }
    /// Sets the running thread's register as a program finds it: memory with key 0 may be used.
    fn reset_keys(&self) {}
    /// Waits for another CPU until `done`.
    fn wait(&self, done: &mut dyn FnMut() -> bool) {
        while !done() {
            core::hint::spin_loop();
        }
    }
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
    /// Number of protection keys of this machine's CPUs: at most the format's.
    fn keys(&self) -> u8 {
        Self::Pte::KEYS
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
    /// Free memory is below its low marks, and pages can be stored
    /// ([`crate::Mm::reclaim_cold`]), or it is in pieces ([`crate::Mm::wants_compaction`]): soon,
    /// but not from here, where locks are held.
    fn memory_is_tight(&self) {}
    /// An address space, of which this is the last reference, is about to be unmapped.
    fn space_ends(&self, _space: &dyn Any) {}
    /// Runs what takes long and calls [`Self::breathe`] itself, for a caller who may hold locks of
    /// the kernel around, which it gives away meanwhile.
    fn unlocked(&self, f: &mut dyn FnMut()) {
        f();
    }
}
