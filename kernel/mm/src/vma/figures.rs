//! Running sums over the VMAs of a tree.

use super::types::{Backing, Prot, Vma, VmaFlags};
use crate::arch::Machine;

/// Sums over the VMAs of a tree, in pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Figures {
    /// All (VmSize).
    pub total: u64,
    /// Private and writable, no stacks (VmData).
    pub data: u64,
    /// Stacks (VmStk).
    pub stack: u64,
    /// Executable files (VmExe and VmLib).
    pub exec: u64,
    /// Locked (VmLck).
    pub locked: u64,
    /// Promised: private and writable, or written once ([`VmaFlags::ACCOUNT`]).
    pub charged: u64,
}

impl Figures {
    pub(super) fn add<M: Machine>(&mut self, vma: &Vma<M>) {
        self.each(vma, |sum| *sum += vma.range.pages());
    }
    pub(super) fn sub<M: Machine>(&mut self, vma: &Vma<M>) {
        self.each(vma, |sum| *sum -= vma.range.pages());
    }
    /// Counts `part`, a part of `vma` until now, as what it is now.
    pub(super) fn change<M: Machine>(&mut self, vma: &Vma<M>, part: &Vma<M>) {
        self.each(vma, |sum| *sum -= part.range.pages());
        self.add(part);
    }
    /// Calls `change` for each sum that the VMA counts in.
    fn each<M: Machine>(&mut self, vma: &Vma<M>, change: impl Fn(&mut u64)) {
        change(&mut self.total);
        if vma.is_data() {
            change(&mut self.data);
        }
        if vma.flags.contains(VmaFlags::ACCOUNT) {
            change(&mut self.charged);
        }
        if vma.prot.contains(Prot::EXEC)
            && matches!(vma.backing, Backing::Object { file: Some(_), .. })
        {
            change(&mut self.exec);
        }
        if vma.flags.intersects(VmaFlags::GROWSDOWN | VmaFlags::LOCKED) {
            if vma.flags.contains(VmaFlags::GROWSDOWN) {
                change(&mut self.stack);
            }
            if vma.flags.is_locked() {
                change(&mut self.locked);
            }
        }
    }
}
