//! Owners of exclusive folios: the account names an address space; this module finds its process
//! and its mappings.

use crate::base::errno::{Errno, Result};
use crate::base::machine::{Space, WeakSpace, mm};
use crate::fs::kinds::pseudo::Text;
use crate::process::task;
use crate::sched;
use alloc::collections::BTreeMap;
use core::cell::Cell;
use mm::FOLIO_ORDERS;
use mm::addr::Pfn;
use mm::frame::Kind;
use mm::own::MmId;

/// Frames that are examined between two pauses.
const FRAMES: usize = 512;

/// An address space and the process that has it.
struct Owner {
    pid: i32,
    /// It is not kept: a read that takes long must not keep the memory of a process that ends.
    space: WeakSpace,
}

/// Folios that are looked up between two pauses.
const FOLIOS: usize = 16;

/// Address spaces by what the account calls them, as they were at one moment.
pub struct Owners {
    spaces: BTreeMap<MmId, Owner>,
    /// How many lookups there were.
    asked: Cell<usize>,
}

impl Owners {
    /// All that there are. Of processes that share a space, the lowest number stands for it.
    /// ENOMEM.
    pub fn now() -> Result<Owners> {
        let mut spaces = BTreeMap::new();
        for process in task::in_steps(task::processes()) {
            let found = process
                .space
                .with(|space| Some((space.owner_id()?, space.downgrade())));
            if let Some((id, space)) = found.flatten() {
                fallible::check()?;
                let pid = process.pid();
                spaces.entry(id).or_insert(Owner { pid, space });
            }
        }
        Ok(Owners {
            spaces,
            asked: Cell::new(0),
        })
    }

    /// Looks up the owner of a frame. Pauses now and then: the caller holds no lock.
    fn get(&self, pfn: Pfn) -> Option<(i32, Space)> {
        let info = mm().frame_info(pfn)?;
        let owner = self.spaces.get(&mm().owner(info.block.head)?)?;
        self.asked.update(|n| n + 1);
        if self.asked.get().is_multiple_of(FOLIOS) {
            sched::breathe();
        }
        let space = owner.space.upgrade()?;
        // Spaces that share a page table are one in the account.
        (!space.may_share(info.block.head)).then_some((owner.pid, space))
    }

    /// The process that has the folio of a frame for itself; 0 when there is none, or it is not
    /// known.
    pub fn of(&self, pfn: Pfn) -> i32 {
        self.get(pfn).map_or(0, |(pid, _)| pid)
    }

    /// Where that process maps the frame; 0 when there is none, or it does not.
    pub fn address(&self, pfn: Pfn) -> u64 {
        let at = self.get(pfn).and_then(|(_, space)| space.address_of(pfn));
        at.map_or(0, |at| at.0)
    }
}

/// One line for each owner: how many folios of each size it has exclusively; owner 0 stands for
/// shared folios and for unknown owners. ENOMEM, EINTR.
pub fn table(out: &mut Text) -> Result {
    let owners = Owners::now()?;
    let mut counts: BTreeMap<i32, [u64; FOLIO_ORDERS]> = BTreeMap::new();
    for (n, (pfn, meta)) in mm().frames().iter().enumerate() {
        if n % FRAMES == 0 && sched::breathe() {
            return Err(Errno::EINTR);
        }
        let order = meta.order().0 as usize;
        if meta.kind() == Kind::Anon && !meta.is_hugetlb() && order < FOLIO_ORDERS {
            fallible::check()?;
            counts.entry(owners.of(pfn)).or_default()[order] += 1;
        }
    }
    out.put(format_args!("  owner"));
    (0..FOLIO_ORDERS).for_each(|order| out.put(format_args!(" {:>5}kB", 4 << order)));
    out.line("");
    for (pid, folios) in counts {
        out.put(format_args!("{pid:>7}"));
        folios.iter().for_each(|n| out.put(format_args!(" {n:>7}")));
        out.line("");
        // Eleven numbers are as long as looking at a hundred frames.
        if sched::breathe() {
            return Err(Errno::EINTR);
        }
    }
    Ok(())
}
