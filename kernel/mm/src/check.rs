//! Verifies everything against everything: counts against tables, tables against VMAs, references against mappings, free
//! lists, leaks, and (entry by entry, as the machine lists them) TLBs against tables. Panics with what is wrong.

use crate::addr::{Pfn, VirtAddr, VirtRange};
use crate::arch::{Attrs, Entry, Level, Machine};
use crate::frame::{Kind, Mm};
use crate::object::Object;
use crate::state::{AddressSpace, Inner};
use crate::table::{for_each_leaf, for_each_table, lookup, validate_contpte};
use crate::vma::{Backing, Prot, Vma};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;

/// What is found while the spaces are walked.
struct Tally<'a, M: Machine> {
    mm: &'a Mm<M>,
    /// References that were found, by frame.
    refs: BTreeMap<Pfn, u32>,
    tables: u64,
    objects: BTreeSet<*const Object<M>>,
}

/// Checks the whole memory manager. `spaces` and `objects` are all there are (objects that a VMA maps need not be listed);
/// `kernel_tables` is how many page tables the kernel's half has. Nothing may change meanwhile.
pub fn all<M: Machine>(
    mm: &Mm<M>,
    spaces: &[&AddressSpace<M>],
    objects: &[&Arc<Object<M>>],
    kernel_tables: u64,
) {
    mm.zone().validate(mm.frames());
    // The idle root is a table too.
    let mut tally = Tally {
        mm,
        refs: BTreeMap::new(),
        tables: 1 + kernel_tables,
        objects: BTreeSet::new(),
    };
    for object in objects {
        tally.object(object);
    }
    for space in spaces {
        tally.space(&space.inner.lock());
    }
    tally.finish();
}

/// Checks a translation that some CPU's TLB holds for the space against the tables: the same frame, and nothing allowed
/// that the tables do not allow. Anything else is a flush that was missed.
pub fn translation<M: Machine>(space: &AddressSpace<M>, va: VirtAddr, pfn: Pfn, cached: Attrs) {
    let inner = space.inner.lock();
    let Entry::Leaf { pfn: now, attrs } = lookup(&space.mm, &inner.table, va).0 else {
        panic!("missed flush: a TLB translates {va:?} to {pfn:?}, where nothing is mapped");
    };
    assert!(
        now == pfn,
        "missed flush: a TLB translates {va:?} to {pfn:?}, the tables to {now:?}"
    );
    let rights = Attrs::WRITE | Attrs::EXEC | Attrs::USER;
    let stale = (cached - attrs) & rights;
    assert!(
        stale.is_empty(),
        "missed flush: a TLB allows {stale:?} at {va:?}, the tables do not"
    );
    assert!(
        !attrs.contains(Attrs::NO_ACCESS),
        "missed flush: a TLB translates {va:?}, which allows no access"
    );
}

impl<M: Machine> Tally<'_, M> {
    fn object(&mut self, object: &Arc<Object<M>>) {
        if self.objects.insert(Arc::as_ptr(object)) {
            object.for_each(&mut |index, pfn| {
                assert!(
                    self.mm.frames().get(pfn).kind() == Kind::Object,
                    "page {index} of an object is {pfn:?}"
                );
                *self.refs.entry(pfn).or_default() += 1;
            });
        }
    }

    fn space(&mut self, inner: &Inner<M>) {
        inner.vmas.validate();
        let mut tables = 0;
        for_each_table(self.mm, &inner.table, &mut |table, level, live| {
            let meta = self.mm.frames().get(table);
            assert!(
                meta.kind() == Kind::Table && meta.refs() == 1,
                "{table:?} is a {level:?} table and {:?}",
                meta.kind()
            );
            assert!(
                meta.live() == live,
                "{level:?} table {table:?} has {live} entries, {} are counted",
                meta.live()
            );
            if level == Level::Pte {
                validate_contpte(self.mm, table);
            }
            tables += 1;
        });
        assert!(
            tables == inner.table.pages(),
            "{tables} page tables, {} are counted",
            inner.table.pages()
        );
        self.tables += tables;
        self.pages(inner);
    }

    fn pages(&mut self, inner: &Inner<M>) {
        let (mut anon, mut file, mut shmem, mut in_vmas) = (0, 0, 0, 0u64);
        for vma in inner.vmas.iter() {
            if let Backing::Object { object, .. } = &vma.backing {
                self.object(object);
            }
            for_each_leaf(self.mm, &inner.table, vma.range, &mut |va, pfn, attrs| {
                in_vmas += 1;
                self.page(vma, va, pfn, attrs);
                match (self.mm.frames().get(pfn).kind(), &vma.backing) {
                    (Kind::Anon, _) => anon += 1,
                    (Kind::Object, Backing::Object { file: Some(_), .. }) => file += 1,
                    (Kind::Object, _) => shmem += 1,
                    _ => {}
                }
            });
        }
        let mut everywhere = 0u64;
        let whole = VirtRange::new(VirtAddr(0), <M::Pte as crate::arch::PteFormat>::USER_END);
        for_each_leaf(self.mm, &inner.table, whole, &mut |_, _, _| everywhere += 1);
        assert!(
            everywhere == in_vmas,
            "{everywhere} pages are mapped, {in_vmas} of them in VMAs"
        );
        let rss = inner.rss;
        assert!(
            (rss.anon, rss.file, rss.shmem) == (anon, file, shmem),
            "{rss:?} is counted, not {anon}, {file}, {shmem}"
        );
    }

    /// One entry against its VMA and its frame.
    fn page(&mut self, vma: &Vma<M>, va: VirtAddr, pfn: Pfn, attrs: Attrs) {
        let meta = self.mm.frames().get(pfn);
        let (kind, writable) = (meta.kind(), attrs.contains(Attrs::WRITE));
        let fixed = Attrs::USER
            | Attrs::EXEC
            | Attrs::NO_ACCESS
            | Attrs::GLOBAL
            | Attrs::DEVICE
            | Attrs::CONTIG;
        assert!(
            attrs & fixed == vma.attrs(),
            "{va:?} says {attrs:?}, its VMA {:?}",
            vma.attrs()
        );
        assert!(
            !writable || vma.prot.contains(Prot::WRITE),
            "{va:?} is writable, its VMA is not"
        );
        if pfn == self.mm.zero_page() {
            assert!(
                !writable && !attrs.contains(Attrs::DIRTY),
                "the zero page is {attrs:?} at {va:?}"
            );
            assert!(
                vma.has_anon && matches!(vma.backing, Backing::Anon),
                "the zero page is in the wrong VMA at {va:?}"
            );
            return;
        }
        *self.refs.entry(pfn).or_default() += 1;
        match kind {
            Kind::Anon => {
                assert!(
                    !vma.shared() && vma.has_anon,
                    "private page {pfn:?} is in the wrong VMA at {va:?}"
                );
                assert!(
                    !writable || meta.refs() == 1,
                    "{pfn:?} is writable at {va:?} and has {} references",
                    meta.refs()
                );
            }
            Kind::Object => {
                let (object, index) = vma
                    .object_page(va)
                    .expect("an object's page is in an object's VMA");
                assert!(
                    vma.shared() || !writable,
                    "{pfn:?} is the object's and writable through a private mapping at {va:?}"
                );
                let mut there = None;
                object.for_each_page(index, index + 1, &mut |_, pfn| {
                    there = Some(pfn);
                    false
                });
                assert!(
                    there == Some(pfn),
                    "{va:?} maps {pfn:?}, page {index} of its object is {there:?}"
                );
            }
            _ => panic!("{va:?} maps {pfn:?}, which is {kind:?}"),
        }
    }

    /// References of every frame, and that each frame in use was found.
    fn finish(self) {
        for (pfn, meta) in self.mm.frames().iter() {
            if matches!(meta.kind(), Kind::Anon | Kind::Object) {
                let found = self.refs.get(&pfn).copied().unwrap_or(0);
                assert!(
                    meta.refs() == found,
                    "{pfn:?} ({:?}) has {} references, {found} were found",
                    meta.kind(),
                    meta.refs()
                );
            }
        }
        let counted = self.mm.counts().page_tables;
        assert!(
            counted == self.tables,
            "{counted} page tables are in use, {} were found",
            self.tables
        );
    }
}
