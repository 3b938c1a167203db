//! References of folios against the mappings that were found.

use super::{Private, Tally};
use crate::addr::{Order, Pfn};
use crate::arch::Machine;
use crate::frame::Kind;
use crate::frame::slots::{Place, UNIT};
use crate::manager::LongTerm;
use crate::own::{Account, Owner};
use alloc::vec::Vec;

impl<M: Machine> Tally<'_, M> {
    /// Checks the account of a private folio against the mappings found; returns the number of
    /// pins, by search: above as many references as pages, the account need not know it
    /// (proof/coq).
    fn account(&self, head: Pfn) -> u64 {
        let order = self.mm.frames().get(head).order();
        let (book, account) = (self.mm.frames().book(head, order), self.mm.account());
        let found = self.refs.get(&head).copied().unwrap_or(0);
        let held = self.mapped.range((head, None)..(head + 1, None));
        let mut held: Vec<_> = held.map(|(_, held)| *held).collect();
        held.push((Owner::PLAIN, 0));
        let last = held.len() - 1;
        let said = account.references(&book).saturating_sub(found);
        let pins = (0..=said).find(|pins| {
            held[last].1 = *pins;
            account.agrees(&book, &held)
        });
        let Some(pins) = pins else {
            panic!("the account of {head:?} does not say what was found: {held:?}");
        };
        let long_term = |page| self.long_term(head + page);
        let lasting: u64 = (0..order.pages()).map(long_term).sum();
        assert!(
            lasting <= pins,
            "{head:?} has {lasting} long-term pins, of {pins}"
        );
        for page in 0..order.pages() {
            if let Some(said) = account.page_count(&book, page as usize) {
                let found = self.private.get(&(head + page));
                let times = found.map_or(0, |private| private.times);
                assert_eq!(said, times, "mappings of page {page} of {head:?}");
            }
        }
        let mappers = self.mappers.range((head, Pfn(0))..(head + 1, Pfn(0)));
        let mappers = mappers.count();
        // Nobody asks for those of shared tables whose accountant has left: no space is plain.
        let named = held[..last].iter().filter(|(who, _)| who.id().is_some());
        for (who, n) in named {
            assert!(
                !account.exclusive(&book, who) || *n == found + pins && mappers <= 1,
                "{head:?} has {found} mappings and {pins} pins, {n} of {:?}, and reads as exclusive",
                who.id()
            );
        }
        pins
    }

    /// Number of long-term pins of a private page; only the pinner maps it. A slot has none.
    fn long_term(&self, page: Pfn) -> u64 {
        if self.mm.frames().slots().contains(page) {
            return 0;
        }
        let Some(LongTerm { pinner, pins }) = self.mm.long_term(page) else {
            return 0;
        };
        let alone = |is: &Private| is.times == 1 && is.by == pinner && !is.shared;
        assert!(
            self.private.get(&page).is_none_or(alone),
            "{page:?} has {pins} long-term pins of {pinner}, and others have it"
        );
        pins.into()
    }

    /// Checks the references of every folio, that each one in use was found, and that a writable
    /// page has one mapping.
    pub(super) fn finish(self) {
        for (page, Private { times, written, .. }) in &self.private {
            assert!(
                !written || *times == 1,
                "{page:?} may be written and is mapped {times} times"
            );
        }
        for (table, sharers) in &self.sharers {
            let counted = self.mm.frames().get(*table).refs();
            assert_eq!(counted, *sharers, "sharers of {table:?}");
        }
        assert_eq!(self.mm.limbo(), 0, "page tables in limbo");
        if self.all_objects {
            let known = self.mm.charged();
            assert_eq!(known, self.charged as i64, "promised pages");
        }
        self.slots();
        // Of pages whose object is not known: its reference, if it still has the page, and pins.
        let (mut pins, mut unknown) = (0, 0);
        for (pfn, meta) in self.mm.frames().iter() {
            if matches!(meta.kind(), Kind::Anon | Kind::Object) {
                let references = self.mm.references(pfn);
                let found = self.refs.get(&pfn).copied().unwrap_or(0);
                assert!(
                    references >= found && references > 0,
                    "{pfn:?} ({:?}) has {} references, {found} were found",
                    meta.kind(),
                    references
                );
                let anon = meta.kind() == Kind::Anon;
                if anon {
                    // That of its slots is no pin.
                    pins += self.account(pfn) - self.units_of(pfn);
                } else if found == 0 && !self.all_objects {
                    unknown += references;
                } else {
                    pins += references - found;
                }
                let large = anon && meta.order() != Order(0) && !meta.is_hugetlb();
                let partly = large && references < meta.order().pages();
                assert!(
                    meta.deferred() || !partly || meta.anon().slots().is_some(),
                    "{pfn:?} of order {} has {found} references and is not to be split",
                    meta.order().0
                );
            }
        }
        assert!(
            self.said.is_subset(&self.keys),
            "a space that is gone maps an object"
        );
        self.pools();
        let frames = self.mm.frames().iter();
        let marked = frames.filter(|(_, meta)| meta.is_hwpoison());
        let counted = self.mm.hwpoisoned();
        assert_eq!(counted, marked.count() as u64, "frames out of use");
        let counted = self.mm.pins();
        assert!(
            (pins..=pins + unknown).contains(&counted),
            "{counted} pins are counted, {pins} references are of no mapping, {unknown} of no \
             known object"
        );
        let counted = self.mm.counts().page_tables;
        assert_eq!(counted, self.tables, "page tables in use, and found");
    }

    /// How many units of slots have a reference to a private folio.
    fn units_of(&self, head: Pfn) -> u64 {
        let meta = self.mm.frames().get(head);
        let slots = meta.anon().slots();
        slots.map_or(0, |_| (meta.order().pages() / UNIT.pages()).max(1))
    }

    /// Checks the account of all slots against the swap entries found, and that each unit has a
    /// folio that has it, or is stored.
    fn slots(&self) {
        let frames = self.mm.frames();
        let (mut used, mut stored) = (0, 0);
        for (pfn, meta) in frames.iter_slots() {
            if meta.kind() != Kind::Swap {
                continue;
            }
            used += meta.order().pages();
            for unit in self.mm.units(frames.folio(pfn)) {
                match self.mm.place(unit) {
                    Place::Here(at) => {
                        let folio = frames.folio(at);
                        let first = Pfn(unit.first.0 - (at - folio.head));
                        let meta = frames.get(folio.head);
                        assert!(
                            folio.kind == Kind::Anon
                                && meta.anon().slots() == Some(frames.index(first)),
                            "{unit:?} is in {folio:?}, whose slots are others"
                        );
                    }
                    Place::Stored(_) => stored += unit.order.bytes(),
                    Place::Empty => {}
                    busy => panic!("{unit:?} is {busy:?}, and nothing runs"),
                }
            }
            let shelved = self.shelved.get(&pfn).copied().unwrap_or(0);
            let is_named = self.refs.contains_key(&pfn) || shelved != 0;
            if !is_named && !self.all_objects {
                continue;
            }
            assert!(is_named, "slots {pfn:?} are not named");
            let of_folio = self.account(pfn) - shelved;
            assert_eq!(of_folio, 1, "references to slots {pfn:?} without a name");
        }
        let slots = self.mm.slots();
        assert_eq!(slots.used(), used, "slots in use");
        assert_eq!(self.mm.stored().original, stored, "bytes stored");
    }
}
