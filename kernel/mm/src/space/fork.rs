//! fork(2): a copy for a child.

use crate::arch::Machine;
use crate::frame::OutOfMemory;
use crate::own::Owner;
use crate::stat::Event;
use crate::state::{AddressSpace, Inner};
use crate::switch::ForkBy;
use crate::table::Share;
use crate::tlb::Gather;
use crate::vma::{Backing, VmaFlags};

impl<M: Machine> AddressSpace<M> {
    /// A copy for a child: private pages are shared copy-on-write. Pages that only an object holds are not copied, the
    /// child faults them in. On failure nothing is left of the child and the parent's counts are as before.
    pub fn fork(&self) -> Result<Self, OutOfMemory> {
        let mut child = AddressSpace::new(&self.mm)?;
        child.set_thp_disable(self.thp_disable());
        let parent = self.inner.lock();
        let mut gather = Gather::new(&self.mm, &self.id);
        let into = (child.inner.get_mut(), &child.id.owner);
        let result = copy(&self.mm, &parent, into, &mut gather);
        // The parent's writable translations must be gone before either side may rely on copy-on-write.
        gather.finish();
        drop(parent);
        self.mm.count(Event::Fork, 1);
        // A child that is not complete is dropped here, and its references with it.
        result.map(|()| child)
    }
}

fn copy<M: Machine>(
    mm: &crate::frame::Mm<M>,
    parent: &Inner<M>,
    (child, owner): (&mut Inner<M>, &Owner),
    gather: &mut Gather<'_, M>,
) -> Result<(), OutOfMemory> {
    child.limits = parent.limits;
    (child.mmap_top, child.brk_start, child.brk) = (parent.mmap_top, parent.brk_start, parent.brk);
    child.vmas = parent.vmas.copy(|vma| {
        // mlock(2): locks are not inherited.
        vma.flags -= VmaFlags::LOCKED | VmaFlags::LOCKONFAULT;
        if vma.flags.contains(VmaFlags::WIPEONFORK) {
            vma.has_anon = false;
            vma.anon_vma = None;
        }
        !vma.flags.contains(VmaFlags::DONTFORK)
    })?;
    child.note_total();
    let Inner {
        vmas, table, rss, ..
    } = child;
    // A pin keeps what was there at the fork, so every page is to lose WRITE: only what is done page by page does that.
    let tables = mm.switches().fork() == ForkBy::Share && mm.pins() == 0;
    for vma in vmas.iter() {
        if vma.anon_vma.is_some() && !vma.shared() {
            let mut share = Share {
                mm,
                child: owner,
                gather,
                pinned: parent.pinned,
                tables: tables && matches!(vma.backing, Backing::Anon),
                anon: 0,
                object: 0,
            };
            share.range(&parent.table, table, vma.range)?;
            rss.add(vma, share.anon, share.object);
        }
    }
    Ok(())
}
