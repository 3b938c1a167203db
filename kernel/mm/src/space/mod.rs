//! A user address space: its lock and what the lock covers: VMAs, page tables, limits, figures.
//! System calls are in `verbs`, faults in `fault`.

mod areas;
mod figures;
mod handle;
mod keys;
mod locked;
mod pages;
mod shared;
mod steps;
mod types;

pub(crate) use areas::{AREAS, Areas};
pub use figures::Rss;
pub use handle::{Handle, WeakHandle};
pub(crate) use locked::{Locked, gathered};
pub(crate) use pages::Pages;
pub(crate) use shared::Reading;
pub(crate) use steps::AREA;
pub use types::{
    Advice, Collapse, Error, FOLIO_ORDERS, FolioUse, Limits, MapRequest, Mapped, Mdwe, Offline,
    PageInfo, Place, Result, Smaps, Usage,
};

use crate::addr::{PAGE_SIZE, Pfn, VirtAddr, VirtRange};
use crate::arch::{Asid, Machine, PteFormat};
use crate::manager::{Family, Mm, SpaceId, SpaceKey};
use crate::own::MmId;
use crate::sync::{AtomicU32, Ordering, Shape, panicking, rank};
use crate::table::{Budget, PageTable, Zap};
use crate::thp::Permit;
use crate::tlb::Gather;
use crate::vma::{VmaFlags, VmaTree};
use alloc::boxed::Box;
use alloc::sync::Arc;
use keys::Keys;
use shared::Counts;

/// Lowest address of a mapping without a fixed one (Linux: vm.mmap_min_addr).
pub const MMAP_MIN_ADDR: u64 = 65536;
pub use crate::vma::STACK_GUARD_GAP;

/// A user address space.
pub struct AddressSpace<M: Machine> {
    pub(crate) mm: Arc<Mm<M>>,
    pub(crate) id: SpaceId,
    pub(crate) key: SpaceKey,
    /// Frame of the root table. It never changes: a switch to the space takes no lock.
    root: Pfn,
    pub(crate) inner: Shape<Inner<M>, { rank::SPACE }>,
    /// A [`Permit`] as a word.
    thp_permit: AtomicU32,
}

/// State under the lock of the space.
pub(crate) struct Inner<M: Machine> {
    pub(crate) vmas: VmaTree<M>,
    pub(crate) table: PageTable,
    pub(crate) limits: Limits,
    pub(crate) rss: Rss,
    pub(crate) peak_total: u64,
    /// Promised pages that the memory manager knows of ([`Inner::settle_charge`]).
    pub(crate) charged: u64,
    pub(crate) mmap_top: VirtAddr,
    pub(crate) brk_start: VirtAddr,
    pub(crate) brk: VirtAddr,
    /// Flags of every new VMA (mlockall(MCL_FUTURE)).
    pub(crate) future: VmaFlags,
    /// What the process refuses itself of executable memory.
    pub(crate) mdwe: Mdwe,
    /// Its protection keys.
    pub(crate) keys: Keys,
    /// Whether a VMA was ever sealed, or of huge pages: verbs ask no VMA without it whether it
    /// refuses them.
    pub(crate) has_restricted_vmas: bool,
    /// Whether a VMA ever had a monitor (userfaultfd): a fork asks no VMA without it.
    pub(crate) has_monitors: bool,
    /// Whether a page ever had a long-term pin.
    pub(crate) pinned: bool,
    /// Number of times the lock was taken while open ([`Locked::open`]).
    turn: u64,
    /// Whether a verb that changes VMAs is between two steps ([`Areas`]).
    claimed: bool,
    /// By CPU, what its faults have mapped as readers; empty while there are none.
    counts: Box<[Counts]>,
}

impl<M: Machine> AddressSpace<M> {
    /// An empty address space that nobody finds. [`Error::Again`]: no free id
    /// ([`crate::own::Ids::MOST`]).
    pub(crate) fn unlisted(mm: &Arc<Mm<M>>, family: Arc<Family>) -> Result<Arc<Self>> {
        mm.prepare_idle_root();
        let id = mm.take_id(family).ok_or(Error::Again)?;
        let table = PageTable::new(mm).inspect_err(|_| mm.give_id(&id))?;
        let root = table.root();
        let inner = Inner {
            vmas: VmaTree::default(),
            table,
            limits: Limits::NONE,
            rss: Rss::default(),
            peak_total: 0,
            charged: 0,
            mmap_top: VirtAddr(M::Pte::USER_END.0),
            brk_start: VirtAddr(0),
            brk: VirtAddr(0),
            future: VmaFlags::empty(),
            mdwe: Mdwe::empty(),
            keys: Keys::new(mm.machine().keys()),
            has_restricted_vmas: false,
            has_monitors: false,
            pinned: false,
            turn: 0,
            claimed: false,
            counts: Box::default(),
        };
        Ok(Arc::new(AddressSpace {
            mm: mm.clone(),
            id,
            key: mm.take_key(),
            root,
            inner: Shape::new(inner),
            thp_permit: AtomicU32::new(Permit::ALL.0),
        }))
    }

    /// The memory manager.
    pub fn mm(&self) -> &Arc<Mm<M>> {
        &self.mm
    }
    /// The TLB tag.
    pub fn asid(&self) -> Asid {
        self.id.asid
    }
    /// The space's account id for its lifetime; `None` if it shares a common id.
    pub fn owner_id(&self) -> Option<MmId> {
        self.id.owner.id().filter(|id| *id != MmId::COMMON)
    }
    /// Its name for ever.
    pub fn key(&self) -> SpaceKey {
        self.key
    }
    /// Frame of the root table.
    pub fn root(&self) -> Pfn {
        self.root
    }
    /// Sets the limits of later calls; what exceeds them already stays.
    pub fn set_limits(&self, limits: Limits) {
        self.lock().limits = limits;
    }
    /// Sets where Place::Hint searches: top-down from `top`, below the stack. Set by exec; ASLR is
    /// the caller's.
    pub fn set_mmap_top(&self, top: VirtAddr) {
        self.lock().mmap_top = top.min(M::Pte::USER_END).align_down(PAGE_SIZE);
    }
    /// The large folios that the process permits itself.
    #[inline]
    pub fn thp_permit(&self) -> Permit {
        Permit(self.thp_permit.load(Ordering::Relaxed))
    }
    /// Changes the permit for later faults; existing folios stay.
    pub fn change_thp_permit(&self, change: impl Fn(Permit) -> Permit) {
        let change = |word| Some(change(Permit(word)).0);
        // Relaxed: publishes nothing else. Never fails.
        let _ = self
            .thp_permit
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
    }
    /// Loads this space's root on the current CPU.
    pub fn activate(&self) {
        self.mm.activate(self.root, self.id.asid);
    }
    /// Switches this CPU, if it is in this space, to an empty user half.
    pub fn leave(&self) {
        self.mm.leave(self.root);
    }
}

/// The pages that overlap `len` bytes at `start`; `None` if they end past the user half.
pub(crate) fn user_pages<M: Machine>(start: VirtAddr, len: u64) -> Option<VirtRange> {
    let end = start.checked_add(len)?.align_up(PAGE_SIZE)?;
    (end <= M::Pte::USER_END && start <= end).then(|| VirtRange::new(start, end))
}

impl<M: Machine> AddressSpace<M> {
    /// Unmaps an address space with no other users before its drop, in steps. CPUs that have run
    /// nothing else since leave it first.
    fn end(&mut self) {
        self.mm.deactivate(self.root);
        let inner = self.inner.get_mut();
        inner.settle();
        self.mm.flush_space(&self.id);
        if inner.has_restricted_vmas {
            inner
                .vmas
                .iter()
                .for_each(|vma| vma.unclaim_huge(self.root));
        }
        let mut gather = Gather::dead(&self.mm, &self.id);
        let mut zap = Zap {
            dead: true,
            budget: Budget::step(&self.mm),
            ..Zap::default()
        };
        for vma in inner.vmas.iter() {
            let mut rest = vma.range;
            loop {
                if zap.budget.take(1) {
                    let mut edit = inner.table.edit(&mut gather);
                    let Some(next) = edit.zap(rest, &mut zap) else {
                        break;
                    };
                    rest.start = next;
                }
                gather.finish();
                self.mm.machine().breathe();
                zap.budget = Budget::step(&self.mm);
            }
        }
        gather.finish();
        let vmas = &mut inner.vmas;
        let all = VirtRange::new(VirtAddr(0), M::Pte::USER_END);
        while let Some(cut) = vmas.start_of(AREAS, all)
            && let Ok(taken) = vmas.take(VirtRange::new(VirtAddr(0), cut))
        {
            drop(taken);
            self.mm.machine().breathe();
        }
        inner.vmas = VmaTree::default();
        inner.settle_charge(&self.mm);
    }
}

impl<M: Machine> Drop for AddressSpace<M> {
    /// Unmaps everything, in steps: whoever drops the last reference holds no lock.
    fn drop(&mut self) {
        if panicking() {
            // There is nothing to be put in order.
            return;
        }
        let mm = self.mm.clone();
        if mm.is_listed(self.key) {
            mm.machine().space_ends(self);
        }
        mm.machine().unlocked(&mut || self.end());
        self.inner.get_mut().table.free_root(&mm);
        // Last: the next space with this id must find no mapping of this one.
        mm.give_id(&self.id);
        mm.unlist_space(self.key);
    }
}
