//! A virtual memory area and its properties.

use crate::addr::{Order, PAGE_SHIFT, Pfn, VirtAddr, VirtRange};
use crate::arch::{Attrs, Key, Machine, PteFormat};
use crate::manager::{Result, SpaceKey};
use crate::mutant::{self, Mutant};
use crate::object::{Mapping, Object, Sealed};
use alloc::string::String;
use alloc::sync::Arc;
use core::any::Any;
use core::convert::Infallible;

bitflags::bitflags! {
    /// A protection: PROT_*, and the protection key.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
    pub struct Prot: u8 {
        /// PROT_READ.
        const READ = 1;
        /// PROT_WRITE; the machines cannot write without reading.
        const WRITE = 2;
        /// PROT_EXEC.
        const EXEC = 4;
        /// All of PROT_*.
        const RIGHTS = 7;
        /// The protection key: the number shifted to here ([`Prot::with_key`]).
        const KEY = 0xf << Self::KEY_SHIFT;
    }
}
bitflags::bitflags! {
    /// Properties of a VMA (Linux: VM_*).
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
    pub struct VmaFlags: u32 {
        /// MAP_SHARED: writes reach the object.
        const SHARED = 1 << 0;
        /// MAP_GROWSDOWN and the main stack.
        const GROWSDOWN = 1 << 1;
        /// mlock: pages stay (they always do) and are counted against RLIMIT_MEMLOCK.
        const LOCKED = 1 << 2;
        /// mseal: may not be unmapped, moved, replaced or protected in another way. Beside LOCKED:
        /// MADV_DONTNEED asks for both.
        const SEALED = 1 << 3;
        /// MADV_DONTFORK.
        const DONTFORK = 1 << 4;
        /// MADV_WIPEONFORK: a child sees zeros.
        const WIPEONFORK = 1 << 5;
        /// MADV_DONTDUMP.
        const DONTDUMP = 1 << 6;
        /// MADV_HUGEPAGE.
        const HUGEPAGE = 1 << 7;
        /// MADV_NOHUGEPAGE.
        const NOHUGEPAGE = 1 << 8;
        /// Its pages are promised ([`crate::Overcommit`]), since it became private and writable:
        /// stays when it is read-only again, once written.
        const ACCOUNT = 1 << 9;
        /// The main stack, shown as [stack].
        const STACK = 1 << 10;
        /// The object may not be mapped writable and shared (opened read-only):
        /// mprotect(PROT_WRITE) gives EACCES.
        const NO_MAYWRITE = 1 << 11;
        /// MLOCK_ONFAULT: locked, but not populated.
        const LOCKONFAULT = 1 << 12;
        /// MADV_RANDOM.
        const RANDOM = 1 << 13;
        /// MADV_SEQUENTIAL.
        const SEQUENTIAL = 1 << 14;
        /// Soft-dirty was cleared since it was made, grown or moved: entries with
        /// [`Attrs::TRACKED`] were not written since. Without it all of its pages count as written
        /// (Linux: VM_SOFTDIRTY, the other way round).
        const TRACKED = 1 << 15;
        /// MAP_NORESERVE: nothing is promised.
        const NORESERVE = 1 << 16;
        /// MADV_GUARD_INSTALL was called here, or for what it was joined with: there may be guards
        /// (`table::guard`).
        const GUARDED = 1 << 17;
        /// MAP_DROPPABLE: pages may go at any time, and are never locked.
        const DROPPABLE = 1 << 18;
        /// Of huge pages ([`crate::hugetlb`]): backed by an object of such. It is cut between them
        /// only, and never joined.
        const HUGETLB = 1 << 19;
        /// Huge pages were taken away for the space that has them reserved: what is not there is
        /// SIGBUS.
        const HUGE_LOST = 1 << 20;
        /// UFFDIO_POISON was called here, or for what it was joined with: there may be poison.
        const POISONED = 1 << 23;
        /// UFFDIO_REGISTER_MODE_MISSING: the monitor is asked for what is not there.
        const UFFD_MISSING = 1 << 24;
        /// UFFDIO_REGISTER_MODE_WP: pages may be write-protected (`table::userfault`).
        const UFFD_WP = 1 << 25;
        /// UFFDIO_REGISTER_MODE_MINOR: the monitor is asked before a page of the object is mapped.
        const UFFD_MINOR = 1 << 26;
        /// UFFD_FEATURE_WP_ASYNC: a write ends the protection of a page, and nobody is asked.
        const UFFD_WP_ASYNC = 1 << 27;
        /// UFFD_FEATURE_WP_UNPOPULATED: what is not there may be write-protected, too.
        const UFFD_WP_UNPOPULATED = 1 << 28;
        /// UFFD_FEATURE_EVENT_FORK: a child's VMA gets a monitor of its own.
        const UFFD_FORKS = 1 << 29;
        /// UFFD_FEATURE_EVENT_REMAP: the monitor goes with the VMA when it moves.
        const UFFD_MOVES = 1 << 30;
        /// Any of the modes: the VMA has a monitor.
        const UFFD = Self::UFFD_MISSING.bits() | Self::UFFD_WP.bits() | Self::UFFD_MINOR.bits();
        /// All that a registration sets.
        const UFFD_ALL = Self::UFFD.bits()
            | Self::UFFD_WP_ASYNC.bits()
            | Self::UFFD_WP_UNPOPULATED.bits()
            | Self::UFFD_FORKS.bits()
            | Self::UFFD_MOVES.bits();
        /// There may be markers that stay without a monitor, too.
        const MARKERS = Self::GUARDED.bits() | Self::POISONED.bits();
        /// Entries may be markers, or write-protected by userfaultfd: faults ask that first, and a
        /// fork shares no table.
        const MARKED = Self::MARKERS.bits() | Self::UFFD.bits();
    }
}

impl Prot {
    const KEY_SHIFT: u32 = 4;

    /// Whether it allows nothing (PROT_NONE).
    #[inline]
    pub const fn is_none(self) -> bool {
        !self.intersects(Prot::RIGHTS)
    }
    /// The protection key.
    #[inline]
    pub const fn key(self) -> Key {
        Key(self.intersection(Prot::KEY).bits() >> Self::KEY_SHIFT)
    }
    /// The same rights with this key.
    #[inline]
    pub const fn with_key(self, key: Key) -> Prot {
        let key = Prot::from_bits_retain(key.0 << Self::KEY_SHIFT);
        self.intersection(Prot::RIGHTS).union(key)
    }

    /// Whether it allows all that `other` does, with the same key.
    #[inline]
    pub fn has_all_of(self, other: Prot) -> bool {
        self.contains(other) && self.key() == other.key()
    }

    /// The attributes of every user entry with this protection, but for WRITE, ACCESSED and DIRTY,
    /// which depend on the page.
    #[inline]
    pub fn attrs<F: PteFormat>(self) -> Attrs {
        let mut attrs = Attrs::USER;
        if F::KEYS > 1 {
            // As `key().attrs()`, by one shift.
            let key = u16::from(self.intersection(Prot::KEY).bits());
            attrs |= Attrs::from_bits_retain(key << (Key::SHIFT - Prot::KEY_SHIFT));
        }
        attrs.set(Attrs::NO_ACCESS, self.is_none());
        attrs.set(Attrs::EXEC, self.contains(Prot::EXEC));
        attrs
    }
}

/// A mapped file, as /proc/PID/maps shows it. Each VMA of it has a reference; what else it is, only
/// the kernel around knows.
pub trait MappedFile: Any + Send + Sync {
    /// Path as it is now, with " (deleted)" when it has no name any more.
    fn path(&self) -> String;
    /// (device, inode).
    fn id(&self) -> (u64, u64);
    /// Whether it has a name and keeps its pages when no mapping is left.
    fn keeps_pages(&self) -> bool;
}

/// Where a VMA's pages come from.
pub enum Backing<M: Machine> {
    /// Zeroes; private to the address space and its copies.
    Anon,
    /// An object from page `offset` on: shared (VmaFlags::SHARED) or private (copy on write).
    Object {
        /// The pages.
        object: Mapping<M>,
        /// The object's page at the VMA's start.
        offset: u64,
        /// The file, `None` for shared anonymous memory.
        file: Option<Arc<dyn MappedFile>>,
    },
}

impl<M: Machine> Clone for Backing<M> {
    #[inline]
    fn clone(&self) -> Self {
        let Ok(same) = self.copied(|object| Ok::<_, Infallible>(object.clone()));
        same
    }
}

impl<M: Machine> Backing<M> {
    /// The same, with the copy that `copy` makes of the area's part in its object.
    #[inline]
    fn copied<E>(
        &self,
        copy: impl FnOnce(&Mapping<M>) -> Result<Mapping<M>, E>,
    ) -> Result<Self, E> {
        Ok(match self {
            Backing::Anon => Backing::Anon,
            Backing::Object {
                object,
                offset,
                file,
            } => Backing::Object {
                object: copy(object)?,
                offset: *offset,
                file: file.clone(),
            },
        })
    }
    /// The order of its pages, if they are huge ones.
    #[inline]
    pub fn huge_order(&self) -> Option<Order> {
        match self {
            Backing::Anon => None,
            Backing::Object { object, .. } => object.huge_order(),
        }
    }
}

/// A virtual memory area.
pub struct Vma<M: Machine> {
    /// Its addresses: page-aligned, not empty.
    pub range: VirtRange,
    /// Its protection.
    pub prot: Prot,
    /// Its properties.
    pub flags: VmaFlags,
    /// Where its pages come from.
    pub backing: Backing<M>,
    /// Whether it has, had, or is about to have pages of its own (not the object's, nor zero
    /// pages): fork must copy entries. Such a VMA has a history.
    pub has_anon: bool,
    /// The history of its private pages, from the first private write on (Linux: anon_vma).
    pub anon_vma: Option<AnonVma>,
    /// Pages that an anonymous area was moved by since its first write, modulo 2^64 (Linux:
    /// vm_pgoff less its page).
    pub moved: u64,
    /// Which userfaultfd it is registered with, if `flags` have one of [`VmaFlags::UFFD`]; else 0.
    pub monitor: u16,
}

/// The history of a VMA's private pages: areas of one history may become one again, others may not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AnonVma {
    /// Equal for areas that were one, or neighbours, when they were first written.
    pub id: u64,
    /// It came by a fork, so the VMA never merges with one without a history (Linux: the chain of
    /// anon_vmas is not singular).
    pub inherited: bool,
}

impl<M: Machine> Clone for Vma<M> {
    fn clone(&self) -> Self {
        Vma {
            backing: self.backing.clone(),
            ..*self
        }
    }
}

impl<M: Machine> Vma<M> {
    /// A VMA without pages.
    pub fn new(range: VirtRange, prot: Prot, flags: VmaFlags, backing: Backing<M>) -> Self {
        Vma {
            range,
            prot,
            flags,
            backing,
            has_anon: false,
            anon_vma: None,
            moved: 0,
            monitor: 0,
        }
    }
    /// A copy for a child's space.
    pub(crate) fn for_child(&self, space: SpaceKey) -> Result<Vma<M>> {
        let backing = self.backing.copied(|object| object.for_child(space))?;
        Ok(Vma { backing, ..*self })
    }
    /// It is one of this space from now on.
    pub(crate) fn enter(&mut self, space: SpaceKey) -> Result {
        match &mut self.backing {
            Backing::Anon => Ok(()),
            Backing::Object { object, .. } => object.enter(space),
        }
    }
    /// Writes may reach its object, if it has one.
    pub(crate) fn allow_writes(&mut self) -> Result<(), Sealed> {
        match &mut self.backing {
            Backing::Anon => Ok(()),
            Backing::Object { object, .. } => object.allow_writes(),
        }
    }
    /// Moves the VMA to another address (mremap). Pages that were written keep their offset in its
    /// history. Returns whether the VMA leaves its monitor with that.
    pub fn move_to(&mut self, range: VirtRange) -> bool {
        let by = self.range.start.page().0.wrapping_sub(range.start.page().0);
        self.moved = match self.anon_vma {
            Some(_) => self.moved.wrapping_add(by),
            None => 0,
        };
        // At its new place everything counts as written.
        self.flags.count_as_written();
        self.range = range;
        let monitor = self.flags & (VmaFlags::UFFD | VmaFlags::UFFD_MOVES);
        let leaves = !monitor.is_empty() && !monitor.contains(VmaFlags::UFFD_MOVES);
        if leaves {
            self.forget_monitor();
        }
        leaves
    }
    /// The flags that a new VMA has with these: ACCOUNT, when it is private and writable and not
    /// MAP_NORESERVE.
    pub fn accounted(prot: Prot, flags: VmaFlags) -> VmaFlags {
        // Huge pages are reserved in their pool.
        let exempt = VmaFlags::SHARED | VmaFlags::NORESERVE | VmaFlags::HUGETLB;
        let account = prot.contains(Prot::WRITE) && !flags.intersects(exempt);
        if account {
            flags | VmaFlags::ACCOUNT
        } else {
            flags
        }
    }
    /// mprotect(2): what was only readable is accounted when it becomes writable, and no more when
    /// it is read-only again without having been written.
    pub fn set_prot(&mut self, prot: Prot) {
        if !self.prot.contains(Prot::WRITE) {
            self.flags = Self::accounted(prot, self.flags);
        }
        let anon = matches!(self.backing, Backing::Anon);
        if !prot.contains(Prot::WRITE) && anon && self.anon_vma.is_none() {
            self.flags -= VmaFlags::ACCOUNT;
        }
        self.prot = prot;
    }
    /// Registers it with a userfaultfd for these modes ([`VmaFlags::UFFD_ALL`]), and no other.
    pub(crate) fn set_monitor(&mut self, monitor: u16, modes: VmaFlags) {
        self.flags = (self.flags - VmaFlags::UFFD_ALL) | modes;
        self.monitor = monitor;
    }
    /// Ends the registration with a userfaultfd.
    pub fn forget_monitor(&mut self) {
        self.set_monitor(0, VmaFlags::empty());
    }
    /// The order of its pages, if they are huge ones.
    #[inline(always)]
    pub fn huge_order(&self) -> Option<Order> {
        match self.flags.is_hugetlb() {
            true => self.backing.huge_order(),
            false => None,
        }
    }
    /// Whether `at` is in one of its pages, a huge one, and not where it begins. No verb opens the
    /// lock there: the leaves of a page are changed together, all but ACCESSED and soft-dirty,
    /// which each has for itself.
    #[cold]
    pub(crate) fn in_huge_page(&self, at: VirtAddr) -> bool {
        let order = self.huge_order();
        order.is_some_and(|order| !at.is_aligned(order.bytes()))
    }
    /// Gives the reservations back that private huge pages of the space with this root table did
    /// not use; the VMA is about to be unmapped whole.
    #[cold]
    pub(crate) fn unclaim_huge(&self, root: Pfn) {
        if self.flags.is_hugetlb()
            && let Some((object, first)) = self.object_page(self.range.start)
        {
            object.unclaim_private(root, first, self.range.pages());
        }
    }
    /// Whether writes reach the object.
    #[inline]
    pub fn shared(&self) -> bool {
        self.flags.contains(VmaFlags::SHARED)
    }
    /// Whether what is added to it counts as promised.
    pub fn is_accountable(&self) -> bool {
        Self::accounted(self.prot, self.flags).contains(VmaFlags::ACCOUNT)
    }
    /// The attributes of every entry of the VMA, but for WRITE, ACCESSED and DIRTY, which depend on
    /// the page.
    #[inline]
    pub fn attrs(&self) -> Attrs {
        self.prot.attrs::<M::Pte>()
    }
    /// The page of the object that backs `va`, for an object-backed VMA.
    #[inline]
    pub fn object_page(&self, va: VirtAddr) -> Option<(&Arc<Object<M>>, u64)> {
        match &self.backing {
            Backing::Anon => None,
            Backing::Object { object, offset, .. } => {
                Some((object, offset + ((va - self.range.start) >> PAGE_SHIFT)))
            }
        }
    }
    /// Cuts off the part from `at` (strictly inside) on and returns it.
    pub fn split_off(&mut self, at: VirtAddr) -> Vma<M> {
        debug_assert!(
            self.range.start < at && at < self.range.end && at.is_aligned(crate::addr::PAGE_SIZE)
        );
        let mut upper = self.clone();
        upper.range.start = at;
        upper.move_offset(at - self.range.start);
        self.range.end = at;
        upper
    }
    /// Drops the part below `at` (inside).
    pub fn cut_below(&mut self, at: VirtAddr) {
        let by = at - self.range.start;
        self.range.start = at;
        self.move_offset(by);
    }
    /// Drops what lies outside `part` (inside the VMA, not empty).
    pub fn cut_to(&mut self, part: VirtRange) {
        self.cut_below(part.start);
        self.range.end = part.end;
    }
    /// Merges the VMA that begins where this one ends into this one.
    pub(super) fn absorb(&mut self, high: &Vma<M>) {
        self.range.end = high.range.end;
        self.has_anon |= high.has_anon;
        self.anon_vma = self.anon_vma.or(high.anon_vma);
        // What is new counts as written, and with it what it became one with.
        self.flags &= high.flags | !VmaFlags::TRACKED;
        if !mutant::on(Mutant::ForgetGuards) {
            self.flags |= high.flags & VmaFlags::MARKERS;
        }
    }
    fn move_offset(&mut self, bytes: u64) {
        if let Backing::Object { offset, .. } = &mut self.backing {
            *offset += bytes >> PAGE_SHIFT;
        }
    }
}
