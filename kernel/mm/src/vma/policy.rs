//! The policy of a VMA: what its flags and its backing mean to faults, fork, advice and locks.
//!
//! Rule: a decision that takes more than one flag, or that several files take, is one pure function
//! here, named for what it decides. A new kind of VMA changes these functions, and not the verbs.

use super::types::{Backing, Prot, Vma, VmaFlags};
use crate::arch::Machine;
use crate::mutant::{self, Mutant};
use crate::thp::{Controls, Orders, Permit, policy};

/// What an access asks of a monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Nothing is there.
    Missing,
    /// It would write to what is write-protected.
    WriteProtected,
    /// The page is in the object, but not mapped.
    Minor,
}

/// What fork makes of a VMA in the child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AtFork {
    /// The VMA with its pages.
    Copied,
    /// The VMA without private pages (MADV_WIPEONFORK).
    Wiped,
    /// Nothing (MADV_DONTFORK).
    Omitted,
}

/// Mapping and cutting.
impl VmaFlags {
    /// Whether its pages are huge ones of a pool: mapped, marked and counted as such.
    #[inline]
    pub const fn is_hugetlb(self) -> bool {
        self.contains(VmaFlags::HUGETLB)
    }
    /// Whether writes may reach the object, now or after an mprotect (Linux: VM_SHARED with
    /// VM_MAYWRITE).
    #[inline]
    pub const fn may_write_object(self) -> bool {
        let kinds = VmaFlags::SHARED.union(VmaFlags::NO_MAYWRITE);
        self.intersection(kinds).bits() == VmaFlags::SHARED.bits()
    }
    /// Whether a move of it is one step: it is not cut at every page, or its monitor gets one
    /// event.
    #[inline]
    pub const fn is_moved_whole(self) -> bool {
        self.intersects(VmaFlags::HUGETLB.union(VmaFlags::UFFD))
    }
    /// Whether a VMA of huge pages has them reserved for this space alone.
    #[inline]
    pub const fn reserves_privately(self) -> bool {
        !self.intersects(VmaFlags::SHARED.union(VmaFlags::NORESERVE))
    }
}

/// Locks and advice.
impl VmaFlags {
    /// What mlock2(2) sets, and munlock(2) clears.
    pub const LOCKS: VmaFlags = VmaFlags::LOCKED.union(VmaFlags::LOCKONFAULT);

    /// Whether its pages count as locked.
    #[inline]
    pub const fn is_locked(self) -> bool {
        self.contains(VmaFlags::LOCKED)
    }
    /// Whether it is locked, and populated as it grows or becomes writable.
    #[inline]
    pub const fn populates(self) -> bool {
        self.intersection(VmaFlags::LOCKS).bits() == VmaFlags::LOCKED.bits()
    }
    /// Whether mlock has an effect. As in Linux, else it is no error; huge pages stay anyway.
    #[inline]
    pub const fn may_be_locked(self) -> bool {
        !self.intersects(VmaFlags::DROPPABLE.union(VmaFlags::HUGETLB))
    }
    /// Whether every advice may discard single pages of it, with no further question.
    #[inline]
    pub const fn may_discard(self) -> bool {
        let kept = VmaFlags::LOCKED.union(VmaFlags::SEALED);
        !self.intersects(kept.union(VmaFlags::HUGETLB))
    }
    /// Whether pages of zeros stay, also where a fault would bring them back.
    #[inline]
    pub const fn keeps_zeros(self) -> bool {
        self.intersects(VmaFlags::LOCKED.union(VmaFlags::UFFD))
    }
}

/// Faults.
impl VmaFlags {
    /// Whether it is registered with a userfaultfd.
    #[inline]
    pub const fn has_monitor(self) -> bool {
        self.intersects(VmaFlags::UFFD)
    }
    /// Whether its pages may be write-protected by the monitor (Linux: userfaultfd_wp).
    #[inline]
    pub const fn is_uffd_wp(self) -> bool {
        self.contains(VmaFlags::UFFD_WP)
    }
    /// Whether an access that finds this asks the monitor.
    #[inline]
    pub const fn asks(self, question: Question) -> bool {
        match question {
            Question::Missing => self.contains(VmaFlags::UFFD_MISSING),
            Question::Minor => self.contains(VmaFlags::UFFD_MINOR),
            Question::WriteProtected => {
                self.is_uffd_wp() && !self.contains(VmaFlags::UFFD_WP_ASYNC)
            }
        }
    }
    /// Whether entries may be markers or write-protected: a fault looks at those first.
    #[inline]
    pub const fn may_be_marked(self) -> bool {
        self.intersects(VmaFlags::MARKED)
    }
    /// From now on all pages count as written.
    pub fn count_as_written(&mut self) {
        *self -= VmaFlags::TRACKED;
    }
    /// Whether the first write to a page is to be seen: entries are made with [`TRACKED`].
    ///
    /// [`TRACKED`]: crate::arch::Attrs::TRACKED
    #[inline]
    pub const fn is_tracked(self) -> bool {
        self.contains(VmaFlags::TRACKED)
    }
    /// Whether a read fault may map neighbours that the object has, too.
    #[inline]
    pub const fn faults_around(self) -> bool {
        !self.intersects(VmaFlags::UFFD_WP.union(VmaFlags::UFFD_MINOR))
    }
    /// Whether a fault maps one page of a large folio alone: first accesses are watched.
    #[inline]
    pub const fn faults_singly(self) -> bool {
        self.intersects(VmaFlags::UFFD.union(VmaFlags::TRACKED))
    }
}

/// Large folios.
impl VmaFlags {
    /// Whether the program asked for large folios.
    #[inline]
    pub const fn advises_large(self) -> bool {
        self.contains(VmaFlags::HUGEPAGE)
    }
    /// Whether no fault allocates a large folio: the program asked for none, or a monitor is asked
    /// page by page.
    #[inline]
    pub const fn forbids_large(self) -> bool {
        self.intersects(VmaFlags::NOHUGEPAGE.union(VmaFlags::UFFD))
    }
    /// The orders that a leaf of the object's folio may have, in a process with this permit.
    #[inline]
    pub const fn map_orders(self, permit: Permit) -> Orders {
        match self.contains(VmaFlags::NOHUGEPAGE) {
            true => Orders::NONE,
            false => permit.orders_of(self.advises_large()),
        }
    }
    /// The orders that MADV_COLLAPSE may make, in a process with this permit: the call itself is
    /// advice.
    #[inline]
    pub const fn collapse_orders(self, permit: Permit) -> Orders {
        match self.intersects(VmaFlags::NOHUGEPAGE.union(VmaFlags::HUGETLB)) {
            true => Orders::NONE,
            false => permit.orders_of(true),
        }
    }
}

/// Fork.
impl VmaFlags {
    /// What the child gets.
    #[inline]
    pub(super) const fn at_fork(self) -> AtFork {
        if self.contains(VmaFlags::DONTFORK) {
            AtFork::Omitted
        } else if self.contains(VmaFlags::WIPEONFORK) {
            AtFork::Wiped
        } else {
            AtFork::Copied
        }
    }
    /// Whether the child's VMA has no monitor where the parent's has one.
    #[inline]
    pub(crate) const fn leaves_monitor_at_fork(self) -> bool {
        self.has_monitor() && !self.contains(VmaFlags::UFFD_FORKS)
    }
}

impl<M: Machine> Vma<M> {
    /// Turns the parent's VMA into the child's. It keeps its monitor until its entries are copied.
    #[inline]
    pub(crate) fn inherit(&mut self) {
        // mlock(2): locks are not inherited.
        self.flags -= VmaFlags::LOCKS;
        if self.flags.at_fork() == AtFork::Wiped {
            self.has_anon = false;
            self.anon_vma = None;
            self.flags -= VmaFlags::MARKERS;
        }
    }
    /// Whether fork copies its entries: those of private pages, and those that no fault would
    /// bring back.
    #[inline]
    pub(crate) fn copies_entries(&self) -> bool {
        let copied_too = VmaFlags::MARKERS | VmaFlags::UFFD_FORKS;
        self.anon_vma.is_some() && !self.shared() || self.flags.intersects(copied_too)
    }
    /// Whether fork may share its tables: none of its entries is a marker.
    #[inline]
    pub(crate) fn shares_tables(&self) -> bool {
        let unmarked = !self.flags.may_be_marked() || mutant::on(Mutant::ShareGuards);
        matches!(self.backing, Backing::Anon) && unmarked
    }
    /// Whether faults and advice there change no more than entries, but for the first write, and
    /// none is a marker.
    #[inline]
    pub(crate) fn changes_only_entries(&self) -> bool {
        let others = VmaFlags::SHARED | VmaFlags::MARKED;
        matches!(self.backing, Backing::Anon) && !self.flags.intersects(others)
    }

    /// Whether write protection leaves marks where nothing is mapped: always in memory of objects,
    /// whose pages come and go, elsewhere with UFFD_FEATURE_WP_UNPOPULATED.
    pub fn marks_empty(&self) -> bool {
        let of_object = matches!(self.backing, Backing::Object { .. });
        of_object || self.flags.contains(VmaFlags::UFFD_WP_UNPOPULATED)
    }
    /// Whether writes there are tracked by asynchronous write protection, also to what is not there
    /// yet.
    pub fn is_protected_async(&self) -> bool {
        let modes = VmaFlags::UFFD_WP | VmaFlags::UFFD_WP_ASYNC;
        self.flags.contains(modes) && self.marks_empty()
    }
    /// Whether pages that go leave their write protection behind.
    #[inline]
    pub fn keeps_marks(&self) -> bool {
        self.flags.is_uffd_wp() && matches!(self.backing, Backing::Object { .. })
    }
    /// Whether it may be registered with a userfaultfd for these modes. All files are in memory, as
    /// shmem is.
    pub(crate) fn suits_monitor(&self, modes: VmaFlags) -> bool {
        let only_protection = VmaFlags::UFFD_WP | VmaFlags::UFFD_WP_ASYNC;
        let modes = modes & (VmaFlags::UFFD | VmaFlags::UFFD_WP_ASYNC);
        match &self.backing {
            _ if self.flags.contains(VmaFlags::DROPPABLE) => false,
            _ if modes == only_protection => true,
            Backing::Anon => !modes.contains(VmaFlags::UFFD_MINOR),
            Backing::Object { .. } => true,
        }
    }
    /// Whether it is sealed.
    #[inline]
    pub(crate) fn is_sealed(&self) -> bool {
        self.flags.contains(VmaFlags::SEALED)
    }
    /// Whether it counts as data (RLIMIT_DATA, VmData): private, writable, not a stack.
    pub fn is_data(&self) -> bool {
        let other = VmaFlags::SHARED | VmaFlags::GROWSDOWN;
        self.prot.contains(Prot::WRITE) && !self.flags.intersects(other)
    }
    /// The orders of large folios that it may have, in a process with this permit.
    #[inline]
    pub fn orders(&self, controls: &Controls, permit: Permit) -> Orders {
        let (advised, no_huge) = (self.flags.advises_large(), self.flags.forbids_large());
        policy::allowed(controls, advised, no_huge, permit)
    }
}

#[cfg(test)]
mod tests {
    use super::{AtFork, Question, VmaFlags};
    use crate::thp::{Orders, Permit};

    /// The flags that, each alone, change the answer of a VMA without flags.
    fn deciding<A: PartialEq>(answer: impl Fn(VmaFlags) -> A) -> VmaFlags {
        let without = answer(VmaFlags::empty());
        let flags = VmaFlags::all().iter();
        flags.filter(|flag| answer(*flag) != without).collect()
    }

    #[test]
    fn each_question_depends_on_these_flags() {
        use VmaFlags as F;
        let uffd = F::UFFD_MISSING | F::UFFD_WP | F::UFFD_MINOR;
        let expected = [
            (deciding(F::is_hugetlb), F::HUGETLB),
            (deciding(F::is_moved_whole), uffd | F::HUGETLB),
            (deciding(F::reserves_privately), F::SHARED | F::NORESERVE),
            (deciding(F::may_be_locked), F::DROPPABLE | F::HUGETLB),
            (deciding(F::may_discard), F::LOCKED | F::SEALED | F::HUGETLB),
            (deciding(F::keeps_zeros), uffd | F::LOCKED),
            (deciding(F::may_be_marked), uffd | F::GUARDED | F::POISONED),
            (deciding(F::faults_around), F::UFFD_WP | F::UFFD_MINOR),
            (deciding(F::faults_singly), uffd | F::TRACKED),
            (deciding(F::forbids_large), uffd | F::NOHUGEPAGE),
            (deciding(F::at_fork), F::DONTFORK | F::WIPEONFORK),
            (deciding(F::leaves_monitor_at_fork), uffd),
        ];
        for (n, (found, flags)) in expected.into_iter().enumerate() {
            assert_eq!(found, flags, "row {n}");
        }
    }

    #[test]
    fn memory_locked_on_fault_is_not_populated() {
        assert!(VmaFlags::LOCKED.populates() && !VmaFlags::LOCKS.populates());
        assert!(VmaFlags::LOCKS.is_locked() && !VmaFlags::empty().populates());
    }

    #[test]
    fn writes_reach_the_object_of_a_shared_mapping_that_may_write() {
        let read_only = VmaFlags::SHARED | VmaFlags::NO_MAYWRITE;
        assert!(VmaFlags::SHARED.may_write_object() && !read_only.may_write_object());
        assert!(!VmaFlags::empty().may_write_object());
    }

    #[test]
    fn asynchronous_write_protection_raises_no_question() {
        let asynchronous = VmaFlags::UFFD_WP | VmaFlags::UFFD_WP_ASYNC;
        assert!(VmaFlags::UFFD_WP.asks(Question::WriteProtected));
        assert!(!asynchronous.asks(Question::WriteProtected));
        assert!(!asynchronous.asks(Question::Missing) && !asynchronous.asks(Question::Minor));
    }

    #[test]
    fn a_child_gets_nothing_of_memory_that_is_both_left_and_wiped() {
        let both = VmaFlags::DONTFORK | VmaFlags::WIPEONFORK;
        assert_eq!(both.at_fork(), AtFork::Omitted);
        let forks = VmaFlags::UFFD_MISSING | VmaFlags::UFFD_FORKS;
        assert!(!forks.leaves_monitor_at_fork());
    }

    #[test]
    fn advice_against_large_folios_also_holds_for_collapse() {
        let permit = Permit::ALL;
        let none = VmaFlags::NOHUGEPAGE;
        assert_eq!(none.map_orders(permit), Orders::NONE);
        assert_eq!(none.collapse_orders(permit), Orders::NONE);
        let advised = VmaFlags::HUGEPAGE.map_orders(permit);
        assert_eq!(VmaFlags::empty().collapse_orders(permit), advised);
    }
}
