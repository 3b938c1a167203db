//! Which process has a folio for itself, and where: the account names an address space, and here that gets its process's number
//! and is asked for its mappings.

use crate::errno::Result;
use crate::fs::pseudo::Text;
use crate::machine::{AddressSpace, mm};
use crate::task;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use mm::addr::Pfn;
use mm::frame::Kind;
use mm::own::MmId;
use mm::space::FOLIO_ORDERS;

/// Address spaces by what the account calls them, each with its process, as they were at one moment.
pub struct Owners(BTreeMap<MmId, (i32, Arc<AddressSpace>)>);

impl Owners {
    /// All that there are. Of processes that share a space, the lowest number stands for it. ENOMEM.
    pub fn now() -> Result<Owners> {
        let mut owners = BTreeMap::new();
        for process in task::processes() {
            if let Some(space) = process.space()
                && let Some(id) = space.owner_id()
            {
                fallible::check()?;
                let (pid, _) = owners.entry(id).or_insert((process.pid(), space));
                *pid = process.pid().min(*pid);
            }
        }
        Ok(Owners(owners))
    }

    fn get(&self, pfn: Pfn) -> Option<&(i32, Arc<AddressSpace>)> {
        let info = mm().frame_info(pfn)?;
        let owner = self.0.get(&mm().owner(info.head)?)?;
        // Those who share a page table are one in the account.
        (!owner.1.may_share(info.head)).then_some(owner)
    }

    /// The process that has the folio of a frame for itself; 0 when there is none, or it is not known.
    pub fn of(&self, pfn: Pfn) -> i32 {
        self.get(pfn).map_or(0, |(pid, _)| *pid)
    }

    /// Where that process maps the frame; 0 when there is none, or it does not.
    pub fn address(&self, pfn: Pfn) -> u64 {
        let at = self.get(pfn).and_then(|(_, space)| space.address_of(pfn));
        at.map_or(0, |at| at.0)
    }
}

/// One line for each owner, by how many folios of each size it has for itself; 0 are those that several have, or nobody that
/// is known.
pub fn table(out: &mut Text) -> Result {
    let owners = Owners::now()?;
    let mut counts: BTreeMap<i32, [u64; FOLIO_ORDERS]> = BTreeMap::new();
    for (pfn, meta) in mm().frames().iter() {
        let order = meta.order().0 as usize;
        if meta.kind() == Kind::Anon && order < FOLIO_ORDERS {
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
    }
    Ok(())
}
