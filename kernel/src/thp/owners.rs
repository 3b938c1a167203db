//! Which process has a folio for itself: the account names an address space, and here that gets its process's number.

use crate::fs::pseudo::Text;
use crate::machine::mm;
use crate::task;
use alloc::collections::BTreeMap;
use mm::addr::Pfn;
use mm::frame::Kind;
use mm::own::MmId;
use mm::space::FOLIO_ORDERS;

/// Address spaces and processes, as they were at one moment.
pub struct Owners(BTreeMap<MmId, i32>);

impl Owners {
    /// All that there are. Of processes that share a space, the lowest number stands for it.
    pub fn now() -> Owners {
        let mut pids = BTreeMap::new();
        for process in task::processes() {
            if let Some(id) = process.space().and_then(|space| space.owner_id()) {
                let pid = pids.entry(id).or_insert(process.pid());
                *pid = process.pid().min(*pid);
            }
        }
        Owners(pids)
    }

    /// The process that has the folio of a frame for itself; 0 when there is none, or it is not known.
    pub fn of(&self, pfn: Pfn) -> i32 {
        let info = mm().frame_info(pfn).filter(|info| info.kind == Kind::Anon);
        let owner = info.and_then(|info| mm().owner(info.head));
        owner.and_then(|id| self.0.get(&id).copied()).unwrap_or(0)
    }
}

/// One line for each owner, by how many folios of each size it has for itself; 0 are those that several have, or nobody that
/// is known.
pub fn table(out: &mut Text) {
    let owners = Owners::now();
    let mut counts: BTreeMap<i32, [u64; FOLIO_ORDERS]> = BTreeMap::new();
    for (pfn, meta) in mm().frames().iter() {
        let order = meta.order().0 as usize;
        if meta.kind() == Kind::Anon && order < FOLIO_ORDERS {
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
}
