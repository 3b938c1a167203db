//! Verifies the invariants: counts against tables, tables against VMAs, references against
//! mappings, free lists, leaks, and (entry by entry, as the machine lists them) TLBs against
//! tables. Panics on a violation.

mod pools;
mod references;

use crate::addr::{PAGE_SIZE, Pfn, VirtAddr, VirtRange};
use crate::arch::{Attrs, Level, Machine, PteFormat};
use crate::frame::meta::ORDERS;
use crate::frame::{Block, Kind};
use crate::manager::{Mm, SpaceKey};
use crate::object::Object;
use crate::own::{MmId, Owner};
use crate::space::{AddressSpace, Inner};
use crate::table::{Leaf, Marker, Node, is_swapped, validate_contpte};
use crate::vma::{Backing, Prot, Vma, VmaFlags};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use core::ops::Deref;

/// Findings of the walk over the spaces.
struct Tally<'a, M: Machine> {
    mm: &'a Mm<M>,
    /// References found, by folio.
    refs: BTreeMap<Pfn, u64>,
    /// Names that objects have of blocks of slots.
    shelved: BTreeMap<Pfn, u64>,
    /// Of them, those of private folios, by the mapping space's owner in the account.
    mapped: BTreeMap<(Pfn, Option<MmId>), (Owner, u64)>,
    /// Private folios, each with the roots of the spaces that map it in unshared tables: several
    /// may share one id.
    mappers: BTreeSet<(Pfn, Pfn)>,
    /// Pages of private memory.
    private: BTreeMap<Pfn, Private>,
    tables: u64,
    /// Shared tables, with the sharers found.
    sharers: BTreeMap<Pfn, u64>,
    objects: BTreeSet<*const Object<M>>,
    /// All spaces.
    keys: BTreeSet<SpaceKey>,
    /// Those that objects say map them.
    said: BTreeSet<SpaceKey>,
    /// Huge pages that objects have reserved, by their order.
    claims: [u64; ORDERS],
    /// Promised pages that are no pages of objects.
    charged: u64,
    /// Whether these are all objects.
    all_objects: bool,
}

/// The most bytes that [`all`] allocates for each page of private memory and of objects, and again
/// for each mapping of a page.
pub const BYTES_FOR_PAGE: u64 = 160;

/// Checks the whole memory manager. `spaces` is complete, and so is `objects` (objects that a VMA
/// maps need not be listed) unless it is `None`: then a page of an object that no VMA maps may have
/// any references. `kernel_tables` is the number of page tables of the kernel half. Nothing may
/// change meanwhile, except that the heap may take frames.
pub fn all<M: Machine, S: Deref<Target = AddressSpace<M>>>(
    mm: &Mm<M>,
    spaces: &[S],
    objects: Option<&[&Arc<Object<M>>]>,
    kernel_tables: u64,
) {
    mm.allocator().validate();
    // The idle root is a table too.
    let mut tally = Tally {
        mm,
        refs: BTreeMap::new(),
        shelved: BTreeMap::new(),
        mapped: BTreeMap::new(),
        mappers: BTreeSet::new(),
        private: BTreeMap::new(),
        tables: 1 + kernel_tables,
        sharers: BTreeMap::new(),
        objects: BTreeSet::new(),
        keys: BTreeSet::new(),
        said: BTreeSet::new(),
        claims: [0; ORDERS],
        charged: 0,
        all_objects: objects.is_some(),
    };
    for object in objects.unwrap_or_default() {
        tally.object(object);
    }
    for space in spaces {
        tally.keys.insert(space.key);
        tally.space(&space.lock(), &space.id.owner, space.key);
    }
    tally.finish();
}

/// Checks a cached translation of a TLB against the tables: the same frame, and no right that they
/// do not allow. Anything else is a missed flush.
pub fn translation<M: Machine>(space: &AddressSpace<M>, va: VirtAddr, pfn: Pfn, cached: Attrs) {
    let inner = space.lock();
    let Some(Leaf {
        pfn: now, attrs, ..
    }) = inner.root().lookup(va)
    else {
        panic!("missed flush: a TLB translates {va:?} to {pfn:?}, where nothing is mapped");
    };
    assert!(
        now == pfn,
        "missed flush: a TLB translates {va:?} to {pfn:?}, the tables to {now:?}"
    );
    let rights = Attrs::WRITE | Attrs::EXEC | Attrs::USER;
    let other_key = (cached ^ attrs) & Attrs::KEY;
    let stale = (cached - attrs) & rights | other_key;
    assert!(
        stale.is_empty(),
        "missed flush: a TLB allows {stale:?} at {va:?}, the tables do not"
    );
    assert!(
        !attrs.contains(Attrs::NO_ACCESS),
        "missed flush: a TLB translates {va:?}, which allows no access"
    );
}

/// Mappings of a private page.
#[derive(Clone, Copy, Default)]
struct Private {
    /// Number of entries; those of a shared table count once.
    times: u32,
    /// Whether one of them is writable.
    written: bool,
    /// The mapping space, or an earlier one in the account of the table.
    by: u16,
    /// Whether a shared table maps it.
    shared: bool,
}

impl<M: Machine> Tally<'_, M> {
    fn object(&mut self, object: &Object<M>) {
        if self.objects.insert(core::ptr::from_ref(object)) {
            let next = |key: &SpaceKey| object.mapper_after(*key);
            let mappers = core::iter::successors(next(&SpaceKey::NONE), next);
            self.said.extend(mappers);
            self.charged += object.unfilled();
            if let Some(order) = object.huge_order() {
                self.claims[usize::from(order.0)] += object.claims();
            }
            object.for_each(&mut |index, place| {
                let (pfn, kind, counts) = match place {
                    Ok(frame) => (frame, Kind::Object, &mut self.refs),
                    Err(slot) => (slot, Kind::Swap, &mut self.shelved),
                };
                let block = self.mm.frames().folio(pfn);
                assert!(block.kind == kind, "page {index} of an object is {place:?}");
                *counts.entry(block.head).or_default() += 1;
            });
        }
    }

    fn space(&mut self, inner: &Inner<M>, owner: &Owner, key: SpaceKey) {
        inner.vmas.validate();
        let charged = inner.vmas.figures().charged;
        assert_eq!(inner.charged, charged, "promised pages of a space");
        self.charged += charged;
        let sealed = inner.vmas.iter().find(|vma| vma.is_sealed());
        assert!(
            inner.has_restricted_vmas || sealed.is_none(),
            "a seal that no verb asks for"
        );
        for vma in inner.vmas.iter() {
            let monitored = vma.flags.has_monitor();
            assert!(
                monitored == (vma.monitor != 0) && (inner.has_monitors || !monitored),
                "{:?} has monitor {}, and {:?}",
                vma.range,
                vma.monitor,
                vma.flags
            );
        }
        let (mut tables, mut again) = (0, 0);
        let sharers = &mut self.sharers;
        let root = Node::root(self.mm, &inner.table);
        let user = VirtRange::new(VirtAddr(0), <M::Pte as PteFormat>::USER_END);
        root.for_each_table(user, false, &mut |found| {
            let (node, range, shared) = (found.node, found.range, found.shared);
            let (table, level, meta) = (node.frame, node.level, node.meta());
            assert_eq!(meta.kind(), Kind::Table, "{level:?} table {table:?}");
            assert!(
                shared || meta.refs() == 1 && node.accountant() == Owner::PLAIN,
                "others have {table:?}, and it may be written through"
            );
            assert!(
                level == Level::Pgd || inner.vmas.iter_in(range).next().is_some(),
                "{level:?} table {table:?} translates {range:?}, where no VMA is"
            );
            assert_eq!(
                meta.live(),
                found.live,
                "entries of {level:?} table {table:?}"
            );
            if level == Level::Pte {
                validate_contpte(node.ptes());
            }
            tables += 1;
            if shared {
                let found = sharers.entry(table).or_default();
                *found += 1;
                again += u64::from(*found > 1);
            }
        });
        assert_eq!(inner.table.pages(), tables, "page tables of a space");
        self.tables += tables - again;
        self.pages(inner, owner, key);
    }

    fn pages(&mut self, inner: &Inner<M>, owner: &Owner, key: SpaceKey) {
        let root = Node::root(self.mm, &inner.table);
        let (mut anon, mut swapped, mut in_vmas) = (0, 0, 0u64);
        let (mut file, mut shmem, mut hugetlb) = (0, 0, 0);
        let mut areas: BTreeMap<*const Object<M>, (&Object<M>, u32)> = BTreeMap::new();
        for vma in inner.vmas.iter() {
            if let Backing::Object { object, .. } = &vma.backing {
                self.object(object);
                let file = object.file_object();
                self.object(file);
                areas.entry(file).or_insert((file, 0)).1 += 1;
            }
            self.huge_pages(vma, root);
            root.for_each_leaf(vma.range, &mut |leaf| {
                in_vmas += leaf.pages;
                let table = (leaf.sharers != 0).then(|| root.shared_table(leaf.va));
                match table.flatten() {
                    None => {
                        let head = self.mm.frames().head(leaf.pfn);
                        self.mappers.insert((head, inner.table.root()));
                        self.leaf(vma, &leaf, Some(owner));
                    }
                    // The accountant has its references, once.
                    Some(table) => {
                        let first = self.sharers[&table.frame] == 1;
                        let owner = first.then(|| table.accountant());
                        self.leaf(vma, &leaf, owner.as_ref());
                    }
                }
                match (self.mm.frames().folio(leaf.pfn).kind, &vma.backing) {
                    _ if Marker::of(leaf.attrs).is_some() => {}
                    _ if vma.flags.is_hugetlb() => hugetlb += leaf.pages,
                    (Kind::Anon, _) => anon += leaf.pages,
                    (Kind::Swap, _) => {
                        anon += leaf.pages;
                        swapped += leaf.pages;
                    }
                    (Kind::Object, Backing::Object { file: Some(_), .. }) => file += leaf.pages,
                    (Kind::Object, _) => shmem += leaf.pages,
                    _ => {}
                }
            });
        }
        for (object, areas) in areas.into_values() {
            assert_eq!(object.areas_of(key), areas, "areas of an object in a space");
        }
        let mut everywhere = 0u64;
        let whole = VirtRange::new(VirtAddr(0), <M::Pte as PteFormat>::USER_END);
        let mut count = |leaf: Leaf| everywhere += leaf.pages;
        root.for_each_leaf(whole, &mut count);
        assert_eq!(everywhere, in_vmas, "pages mapped, of them in VMAs");
        let rss = &inner.rss;
        let counted = [rss.anon, rss.swapped, rss.file, rss.shmem, rss.hugetlb];
        let found = [anon, swapped, file, shmem, hugetlb];
        assert_eq!(counted, found, "RSS of a space");
    }

    /// Checks a marker.
    fn marker(&self, vma: &Vma<M>, leaf: &Leaf, marker: Marker) {
        let Leaf { va, pfn, attrs, .. } = *leaf;
        assert!(
            attrs - Attrs::TRACKED == marker.attrs() && pfn == self.mm.zero_page(),
            "the marker at {va:?} is {attrs:?} on {pfn:?}"
        );
        assert!(
            vma.flags.intersects(match marker {
                Marker::Guard => VmaFlags::GUARDED,
                Marker::Poison => VmaFlags::POISONED,
                Marker::WriteProtected => VmaFlags::UFFD_WP,
            }),
            "a marker ({marker:?}) in an area that has none, at {va:?}"
        );
        assert!(leaf.sharers == 0, "a marker in a shared table, at {va:?}");
    }

    /// Checks a swap entry; its name of slots is `owner`'s, or already counted.
    fn swap_entry(&mut self, vma: &Vma<M>, leaf: &Leaf, owner: Option<&Owner>) {
        let Leaf { va, pfn, attrs, .. } = *leaf;
        let slots = self.mm.frames().folio(pfn);
        assert!(
            slots.kind == Kind::Swap && !vma.shared() && vma.has_anon,
            "the swap entry at {va:?} names {pfn:?}, which is {:?}",
            slots.kind
        );
        assert!(
            !attrs.intersects(Attrs::WRITE | Attrs::ACCESSED | Attrs::DIRTY | Attrs::CONTIG),
            "the swap entry at {va:?} is {attrs:?}"
        );
        if let Some(owner) = owner {
            *self.refs.entry(slots.head).or_default() += leaf.pages;
            let held = self.mapped.entry((slots.head, owner.id()));
            held.or_insert((*owner, 0)).1 += leaf.pages;
            for page in (0..leaf.pages).map(|i| pfn + i) {
                let private = self.private.entry(page).or_default();
                private.times += 1;
                private.shared |= leaf.sharers != 0;
            }
        }
    }

    /// Checks whether a leaf may be write-protected by userfaultfd.
    fn write_protection(&self, vma: &Vma<M>, leaf: &Leaf) {
        let Leaf { va, attrs, .. } = *leaf;
        assert!(
            vma.flags.is_uffd_wp() && leaf.sharers == 0,
            "{va:?} is write-protected, and no monitor is told of writes"
        );
        assert!(
            !attrs.contains(Attrs::WRITE),
            "{va:?} is write-protected and writable"
        );
    }

    /// What is mapped of a huge page is all of it, of one folio in order, and so are markers, and
    /// the write protection of userfaultfd.
    fn huge_pages(&self, vma: &Vma<M>, root: Node<'_, M>) {
        let Some(order) = vma.huge_order() else {
            return;
        };
        let mut rest = vma.range;
        while let Some(page) =
            rest.intersection(&VirtRange::new(rest.start, rest.start + order.bytes()))
        {
            let (mut found, mut first) = (0, None);
            root.for_each_leaf(page, &mut |leaf| {
                let marker = Marker::of(leaf.attrs);
                let at = marker.map_or((leaf.va - page.start) / PAGE_SIZE, |_| 0);
                let what = (
                    leaf.pfn.0.wrapping_sub(at),
                    marker,
                    leaf.attrs & Attrs::UFFD_WP,
                );
                assert_eq!(
                    *first.get_or_insert(what),
                    what,
                    "the huge page at {page:?}"
                );
                found += leaf.pages;
            });
            assert!(
                found == 0 || found == order.pages(),
                "{found} pages of the huge page at {page:?}",
            );
            rest.start = page.end;
        }
    }

    /// Huge pages are in areas of such, whole, and nothing else is.
    fn huge_leaf(&self, vma: &Vma<M>, leaf: &Leaf, head: Pfn) {
        let meta = self.mm.frames().get(head);
        let order = vma.huge_order();
        assert!(
            order.is_some() == meta.is_hugetlb(),
            "{:?} maps {head:?} ({meta:?}), huge pages of its area: {order:?}",
            leaf.va
        );
        assert!(
            order.is_none_or(|order| order == meta.order()),
            "{:?} maps {head:?} ({meta:?}), of another size",
            leaf.va
        );
        let Some(start) = leaf.va.0.checked_sub((leaf.pfn - head) * PAGE_SIZE) else {
            panic!("{:?} maps a part of {head:?}", leaf.va);
        };
        assert!(
            order.is_none_or(|order| VirtAddr(start).is_aligned(order.bytes())),
            "{head:?} ({meta:?}) is mapped askew, at {start:#x}"
        );
    }

    /// Checks a leaf against its VMA and its folio; its references are `owner`'s, or already
    /// counted.
    fn leaf(&mut self, vma: &Vma<M>, leaf: &Leaf, owner: Option<&Owner>) {
        let Leaf { va, pfn, attrs, .. } = *leaf;
        let Block { head, kind, .. } = self.mm.frames().folio(pfn);
        if attrs.contains(Attrs::UFFD_WP) {
            self.write_protection(vma, leaf);
        }
        if let Some(marker) = Marker::of(attrs) {
            return self.marker(vma, leaf, marker);
        }
        if is_swapped(attrs) {
            return self.swap_entry(vma, leaf, owner);
        }
        let writable = attrs.contains(Attrs::WRITE);
        let fixed = Attrs::USER
            | Attrs::EXEC
            | Attrs::NO_ACCESS
            | Attrs::GLOBAL
            | Attrs::DEVICE
            | Attrs::KEY;
        assert!(
            attrs & fixed == vma.attrs(),
            "{va:?} says {attrs:?}, its VMA {:?}",
            vma.attrs()
        );
        assert!(
            !writable || vma.prot.contains(Prot::WRITE),
            "{va:?} is writable, its VMA is not"
        );
        let tracked = vma.flags.is_tracked() && attrs.contains(Attrs::TRACKED);
        assert!(
            !(writable && tracked),
            "{va:?} is writable, and its first write is to be seen"
        );
        assert!(
            leaf.level == Level::Pte || leaf.pages == leaf.level.order().pages(),
            "the {:?} leaf at {va:?} crosses an end of its VMA",
            leaf.level
        );
        if head == self.mm.zero_page() || head == self.mm.huge_zero_page() {
            assert!(
                !writable && !attrs.contains(Attrs::DIRTY),
                "the zero page is {attrs:?} at {va:?}"
            );
            assert!(
                matches!(vma.backing, Backing::Anon),
                "the zero page is in the wrong VMA at {va:?}"
            );
            return;
        }
        let Some(owner) = owner else {
            return;
        };
        self.huge_leaf(vma, leaf, head);
        let references = leaf.pages;
        *self.refs.entry(head).or_default() += references;
        match kind {
            Kind::Anon => {
                assert!(
                    !vma.shared() && vma.has_anon,
                    "private page {pfn:?} is in the wrong VMA at {va:?}"
                );
                let held = self.mapped.entry((head, owner.id()));
                held.or_insert((*owner, 0)).1 += references;
                for page in (0..references).map(|i| pfn + i) {
                    let private = self.private.entry(page).or_default();
                    private.times += 1;
                    private.written |= writable;
                    private.by = owner.id().map_or(0, MmId::get);
                    private.shared |= leaf.sharers != 0;
                }
            }
            Kind::Object => {
                let (object, index) = vma
                    .object_page(va)
                    .expect("an object's page is in an object's VMA");
                assert!(
                    vma.shared() || !writable,
                    "{pfn:?} is the object's and writable through a private mapping at {va:?}"
                );
                let (mut there, end) = (0, index + leaf.pages);
                let mut is_there = |at: u64, found: Pfn| {
                    there += u64::from(found == pfn + (at - index));
                    true
                };
                object
                    .file_object()
                    .for_each_page(index, end, &mut is_there);
                assert!(
                    there == leaf.pages,
                    "{va:?} maps {pfn:?}, page {index} of its object is another one"
                );
            }
            _ => panic!("{va:?} maps {pfn:?}, which is {kind:?}"),
        }
    }
}
