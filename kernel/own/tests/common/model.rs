//! Who really holds a folio, beside what a scheme says of it.

use super::{Sheet, owner};
use own::{Account, Book, Meter, MmId, Owner, Part};
use std::collections::{BTreeMap, BTreeSet};

/// What a scheme promises.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Promise {
    /// Exact, and the owner is named.
    Names,
    /// Exact.
    Exact,
    /// A "yes" is true; and exact as long as no more than two address spaces ever mapped the folio.
    Two,
    /// A "yes" is true; and exact for who mapped the folio first, who is named.
    Owner,
    /// A "yes" is true; and exact as long as no mapping came after the first ones.
    First,
    /// As long as no mapping changed hands either; the mappings of each page are counted.
    Pages,
}

/// References by holder, and the scheme under test. Every step is followed by a comparison. A
/// holder is the id of its space, 0 for plain references; those from [`MmId::COMMON`] on are spaces
/// that share this id.
pub struct Model<'a, A> {
    scheme: &'a A,
    promise: Promise,
    sheet: &'a Sheet,
    held: BTreeMap<u16, u64>,
    /// How often whose entries map each page.
    pages: BTreeMap<u16, Vec<u32>>,
    /// Who ever mapped it, and whether a mapping came after `begin`.
    ever: BTreeSet<u16>,
    added: bool,
    passed: bool,
    /// Who mapped it first.
    first: u16,
    gone: bool,
    pub meter: Meter,
}

fn who(holder: u16) -> Owner {
    match holder {
        0 => Owner::PLAIN,
        _ => owner(holder.min(MmId::COMMON.get())),
    }
}

impl<'a, A: Account> Model<'a, A> {
    pub fn begin(scheme: &'a A, promise: Promise, sheet: &'a Sheet, id: u16, n: u32) -> Self {
        let mut meter = Meter::default();
        let part = if id == 0 {
            Part::nothing(n)
        } else {
            Part::ptes(0, n)
        };
        scheme.begin(sheet, &who(id), part, &mut meter);
        let mut model = Model {
            scheme,
            promise,
            sheet,
            held: BTreeMap::from([(id, n.into())]),
            pages: BTreeMap::new(),
            ever: BTreeSet::from([id]),
            added: false,
            passed: false,
            first: id,
            gone: false,
            meter,
        };
        model.mark(id, part, 1);
        model.compare();
        model
    }
    pub fn held(&self, id: u16) -> u64 {
        self.held.get(&id).copied().unwrap_or(0)
    }
    pub fn total(&self) -> u64 {
        self.held.values().sum()
    }
    pub fn add(&mut self, id: u16, n: u32) {
        let mut left = n;
        while left > 0 {
            let part = self.next(id, left);
            self.scheme.map(self.sheet, &who(id), part, &mut self.meter);
            self.mark(id, part, 1);
            left -= part.n;
        }
        self.give(id, n);
        self.compare();
    }
    pub fn sub(&mut self, id: u16, n: u32) {
        let mut left = n;
        while left > 0 {
            let part = self.mapped(id, left);
            self.gone = self
                .scheme
                .unmap(self.sheet, &who(id), part, &mut self.meter);
            self.mark(id, part, -1);
            left -= part.n;
        }
        self.take(id, n);
        let last = self.total() == 0;
        assert_eq!(self.gone, last, "{self:?}: the last one");
        if !last {
            self.compare();
        }
    }
    pub fn pass(&mut self, from: u16, to: u16, n: u32) {
        let bare = self.held(from) - self.entries(from);
        if self.scheme.counts_pages() && from == 0 && to != 0 && bare > 0 {
            // Plain references do not become entries: those are new ones.
            self.add(to, n);
            return self.sub(0, n);
        }
        let (one, other) = (who(from), who(to));
        self.scheme
            .pass(self.sheet, &one, &other, n, &mut self.meter);
        let mut left = n;
        while left > 0 {
            let part = self.mapped(from, left);
            self.mark(from, part, -1);
            self.mark(to, part, 1);
            left -= part.n;
        }
        self.passed |= from != to;
        self.take(from, n);
        self.give(to, n);
        self.compare();
    }

    /// How many entries there are of an owner.
    fn entries(&self, id: u16) -> u64 {
        let pages = self.pages.get(&id).into_iter().flatten();
        pages.map(|count| u64::from(*count)).sum()
    }
    /// Up to `n` pages that an owner maps next: one behind the other, and from the first again.
    fn next(&self, id: u16, n: u32) -> Part {
        if id == 0 {
            return Part::nothing(n);
        }
        let pages = self.sheet.order().pages() as u32;
        let first = (self.entries(id) % u64::from(pages)) as u32;
        Part::ptes(first, n.min(pages - first))
    }
    /// Up to `n` pages in a row that an owner maps; without entries, its references.
    fn mapped(&self, id: u16, n: u32) -> Part {
        let none = Vec::new();
        let pages = self.pages.get(&id).unwrap_or(&none);
        let Some(first) = pages.iter().position(|count| *count > 0) else {
            return Part::nothing(n);
        };
        let run = pages[first..].iter().take_while(|count| **count > 0);
        Part::ptes(first as u32, n.min(run.count() as u32))
    }
    /// Entries of a part come or go.
    fn mark(&mut self, id: u16, part: Part, more: i32) {
        if part.by == own::By::Nothing {
            return;
        }
        let none = || vec![0; self.sheet.order().pages() as usize];
        let pages = self.pages.entry(id).or_insert_with(none);
        for count in &mut pages[part.first as usize..][..part.n as usize] {
            *count = count.checked_add_signed(more).expect("they were there");
        }
    }

    fn give(&mut self, id: u16, n: u32) {
        *self.held.entry(id).or_default() += u64::from(n);
        if id != 0 {
            self.ever.insert(id);
            self.added = true;
        }
    }
    fn take(&mut self, id: u16, n: u32) {
        let left = self.held(id) - u64::from(n);
        match left {
            0 => self.held.remove(&id),
            _ => self.held.insert(id, left),
        };
    }
    /// Nobody holds it, and the words say so.
    pub fn is_gone(&self) {
        assert!(self.gone && self.sheet.is_zero(), "{self:?}");
    }
    /// Whose the folio is alone but for `plain` plain references, as its promise has it: more of
    /// the others than pages read as shared.
    fn truth(&self, plain: u64) -> Option<u16> {
        let mut mappers = self.held.keys().filter(|id| **id != 0);
        let first = mappers.next().copied();
        let alone = self.held(0) == plain && mappers.next().is_none();
        first.filter(|_| alone && self.total() - plain <= self.sheet.order().pages())
    }
    /// Up to so many references, no field of the ownership word carries into their number.
    fn room(&self) -> u64 {
        if self.sheet.order().0 <= 4 {
            16
        } else {
            13_000_000
        }
    }
    /// Whether the scheme must know that a folio is exclusive to `id`, but for so many plain
    /// references.
    fn exact(&self, id: u16, plain: u64) -> bool {
        if who(id).is_common() {
            return self.total() == plain + 1;
        }
        let one_page = self.sheet.order().0 == 0;
        match self.promise {
            Promise::Names | Promise::Exact => true,
            Promise::Two => one_page || self.ever.len() <= 2,
            Promise::Owner => one_page || id == self.first,
            Promise::First => one_page || !self.added,
            Promise::Pages => one_page || !self.added && !self.passed,
        }
    }
    fn compare(&self) {
        let said = self.scheme.references(self.sheet);
        let carries = self.promise == Promise::Names && self.total() > self.room();
        assert!(
            said == self.total() || carries && said > self.total(),
            "{self:?}: {said} references"
        );
        for &id in self.held.keys().filter(|id| **id != 0) {
            for plain in [0, self.held(0)] {
                let said = self.scheme.exclusive_but(self.sheet, &who(id), plain);
                let truth = self.truth(plain) == Some(id);
                assert!(truth || !said, "{self:?}: wrongly exclusive to {id}");
                assert!(
                    said || !truth || !self.exact(id, plain),
                    "{self:?}: wrongly shared, {id} asks"
                );
            }
        }
        let mut held: Vec<(Owner, u64)> = Vec::new();
        for (id, n) in &self.held {
            match held.iter_mut().find(|(other, _)| *other == who(*id)) {
                Some((_, its)) => *its += n,
                None => held.push((who(*id), *n)),
            }
        }
        assert!(self.scheme.agrees(self.sheet, &held), "{self:?}");
        held[0].1 += 1;
        assert!(
            !self.scheme.agrees(self.sheet, &held),
            "{self:?}, and one more"
        );
        let alone = self.truth(0).filter(|id| *id <= MmId::LAST);
        let named = match self.promise {
            Promise::Names => alone,
            Promise::Owner if self.sheet.order().0 > 0 => alone.filter(|id| *id == self.first),
            _ => None,
        };
        let named = named.and_then(MmId::new);
        assert_eq!(self.scheme.owner(self.sheet), named, "{self:?}");
        if self.scheme.counts_pages() && self.sheet.order().0 > 0 {
            for page in 0..self.sheet.order().pages() as usize {
                let mapped: u32 = self.pages.values().map(|pages| pages[page]).sum();
                let said = self.scheme.page_count(self.sheet, page);
                assert_eq!(said, Some(mapped), "{self:?}: page {page}");
            }
        }
    }
}

impl<A> std::fmt::Debug for Model<'_, A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "order {}, held by id {:?}",
            self.sheet.order().0,
            self.held
        )
    }
}
