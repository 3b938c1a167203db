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
}

impl Figures {
    pub(super) fn add<M: Machine>(&mut self, vma: &Vma<M>) {
        self.each(vma, |sum, pages| *sum += pages);
    }
    pub(super) fn sub<M: Machine>(&mut self, vma: &Vma<M>) {
        self.each(vma, |sum, pages| *sum -= pages);
    }
    fn each<M: Machine>(&mut self, vma: &Vma<M>, change: impl Fn(&mut u64, u64)) {
        let pages = vma.range.pages();
        change(&mut self.total, pages);
        if vma.is_data() {
            change(&mut self.data, pages);
        }
        if vma.prot.contains(Prot::EXEC)
            && matches!(vma.backing, Backing::Object { file: Some(_), .. })
        {
            change(&mut self.exec, pages);
        }
        if vma.flags.intersects(VmaFlags::GROWSDOWN | VmaFlags::LOCKED) {
            if vma.flags.contains(VmaFlags::GROWSDOWN) {
                change(&mut self.stack, pages);
            }
            if vma.flags.contains(VmaFlags::LOCKED) {
                change(&mut self.locked, pages);
            }
        }
    }
}
