//! The tags and roots that CPUs have loaded, and the idle root for a CPU that is in no address
//! space.

use super::Mm;
use crate::addr::Pfn;
use crate::arch::{Asid, Cpu, Machine, Tlb};
use crate::mutant::{self, Mutant};
use crate::own::Owner;
use crate::stat::Event;
use crate::sync::{AtomicU64, Ordering};
use alloc::sync::Arc;

/// The spaces that have come from one by forks: a private page is of one family.
#[derive(Debug, Default)]
pub struct Family {
    /// References that pins hold to what its spaces map.
    pins: AtomicU64,
}

impl Family {
    /// The number of references that pins hold to pages that spaces of the family may map. Relaxed:
    /// asked about pages of a locked space, which are pinned under its lock.
    pub(crate) fn pins(&self) -> u64 {
        self.pins.load(Ordering::Relaxed)
    }
    pub(crate) fn add_pins(&self, n: i64) {
        self.pins.fetch_add(n as u64, Ordering::Relaxed);
    }
}

/// The identity of an address space.
#[derive(Debug)]
pub struct SpaceId {
    /// The tag of its entries in TLBs.
    pub asid: Asid,
    /// The owner of its mappings in the account of folios.
    pub owner: Owner,
    /// Its own, and its relatives'.
    pub family: Arc<Family>,
}

impl<M: Machine> Mm<M> {
    /// A tag and an id for a new address space of this family; `None` when there are as many spaces
    /// as the account can hold.
    pub(crate) fn take_id(&self, family: Arc<Family>) -> Option<SpaceId> {
        let id = self.ids.lock().take(self.switches().unique_ids())?;
        Some(SpaceId {
            asid: self.asids.lock().take(),
            owner: Owner::new(id),
            family,
        })
    }
    /// How many address spaces there are.
    pub fn spaces(&self) -> usize {
        self.ids.lock().count()
    }
    /// How many address spaces share [`crate::own::MmId::COMMON`].
    pub(super) fn common_ids(&self) -> u64 {
        self.ids.lock().common() as u64
    }
    /// Flushes the TLBs of a space that no CPU will use again; also the shared tag: a CPU that has
    /// left for a space with another one keeps what it has cached. When it next loads the shared
    /// tag, it may walk by that to tables that have long been freed, and set bits there, before its
    /// flush.
    pub(crate) fn flush_space(&self, id: &SpaceId) {
        if mutant::on(Mutant::KeepTagged) {
            return;
        }
        self.count(Event::FlushSpace, 1);
        self.machine.tlb().flush_asid(id.asid);
    }
    /// Gives back the tag and the id of a space of which no mapping is left, in tables or in TLBs.
    pub(crate) fn give_id(&self, id: &SpaceId) {
        self.asids.lock().give(id.asid);
        if let Some(id) = id.owner.id() {
            self.ids.lock().give(id);
        }
    }

    /// Makes `root` the user half of this CPU, unless it is already.
    pub(crate) fn activate(&self, root: Pfn, asid: Asid) {
        let cpu = &self.cpus[self.machine.cpu().id()];
        if !cpu.has(root) {
            self.count(Event::Switch, 1);
            cpu.load(root, || self.machine.cpu().activate(root, asid));
        }
    }
    /// Prepares the idle root once the kernel half is complete, which it is when the first address
    /// space is made.
    pub(crate) fn prepare_idle_root(&self) {
        // Each fork asks: the word is written only by the first.
        let ready = &self.idle_root_ready;
        if !ready.load(Ordering::Relaxed) && !ready.swap(true, Ordering::Relaxed) {
            self.machine.prepare_root(self.idle_root);
        }
    }
    /// If this CPU has `root` loaded, loads the idle root instead.
    pub(crate) fn leave(&self, root: Pfn) {
        if self.cpus[self.machine.cpu().id()].has(root) {
            self.activate(self.idle_root, Asid(0));
        }
    }
    /// Makes sure that no CPU has `root` loaded, of a space that no thread uses: a CPU that still
    /// has it, because it has run nothing else since, is asked to leave. Waits for that.
    pub(crate) fn deactivate(&self, root: Pfn) {
        self.leave(root);
        for (number, cpu) in self.cpus.iter().enumerate() {
            // What the CPU has loaded now is not older than the last reference to the space that it
            // dropped.
            if cpu.has_left(root) {
                continue;
            }
            let ask = || {
                if cpu.ask_to_leave(root) {
                    self.machine.cpu().interrupt(number);
                }
                self.answer();
                false
            };
            // Looked at first: one that has served the request is not asked again.
            (self.machine.cpu()).wait(&mut || cpu.has_left(root) || ask());
            cpu.take_back(root);
        }
    }

    /// Does what other CPUs wait for: leaves an address space that ends. Called after
    /// [`Cpu::interrupt`], and by a CPU that waits for another one, with any lock held: takes none.
    #[inline]
    pub fn answer(&self) {
        if let Some(root) = self.cpus[self.machine.cpu().id()].asked() {
            self.leave(root);
        }
    }
    /// Drains this CPU's page lists if another CPU has requested that. Called with no lock held, by
    /// a CPU that may allocate nothing for a long time.
    #[inline]
    pub fn drain_if_asked(&self) {
        self.allocator.drain_if_asked(self.machine.cpu().id());
    }
    /// Makes this CPU, which has no thread to run, leave its address space; with no lock held.
    pub fn idle(&self) {
        self.activate(self.idle_root, Asid(0));
        self.drain_if_asked();
    }
}
