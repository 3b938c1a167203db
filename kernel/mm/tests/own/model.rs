//! Who really holds a folio, beside what a scheme says of it.

use super::{Sheet, owner};
use mm::own::{Account, Book, Meter, MmId, Owner};
use std::collections::BTreeMap;

/// What a scheme promises.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Promise {
    /// Exact, and the owner is named.
    Names,
    /// Exact.
    Exact,
    /// A "yes" is true.
    NeverWronglyYes,
}

/// References by id (0: plain), and the scheme under test. Every step is followed by a comparison.
pub struct Model<'a, A> {
    scheme: &'a A,
    promise: Promise,
    sheet: &'a Sheet,
    held: BTreeMap<u16, u64>,
    gone: bool,
    pub meter: Meter,
}

fn who(id: u16) -> Owner {
    if id == 0 { Owner::PLAIN } else { owner(id) }
}

impl<'a, A: Account> Model<'a, A> {
    pub fn begin(scheme: &'a A, promise: Promise, sheet: &'a Sheet, id: u16, n: u32) -> Self {
        let mut meter = Meter::default();
        scheme.begin(sheet, &who(id), n, &mut meter);
        let model = Model {
            scheme,
            promise,
            sheet,
            held: BTreeMap::from([(id, n.into())]),
            gone: false,
            meter,
        };
        model.compare();
        model
    }
    pub fn held(&self, id: u16) -> u64 {
        self.held.get(&id).copied().unwrap_or(0)
    }
    fn total(&self) -> u64 {
        self.held.values().sum()
    }
    pub fn add(&mut self, id: u16, n: u32) {
        self.scheme.add(self.sheet, &who(id), n, &mut self.meter);
        *self.held.entry(id).or_default() += u64::from(n);
        self.compare();
    }
    pub fn sub(&mut self, id: u16, n: u32) {
        let last = self.scheme.sub(self.sheet, &who(id), n, &mut self.meter);
        self.take(id, n);
        assert_eq!(last, self.total() == 0, "{self:?}: the last one");
        self.gone = last;
        if !last {
            self.compare();
        }
    }
    pub fn pass(&mut self, from: u16, to: u16, n: u32) {
        let (one, other) = (who(from), who(to));
        self.scheme
            .pass(self.sheet, &one, &other, n, &mut self.meter);
        self.take(from, n);
        *self.held.entry(to).or_default() += u64::from(n);
        self.compare();
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
    /// Whose the folio is alone, as its promise has it: more references than pages read as shared.
    fn truth(&self) -> Option<u16> {
        let few = self.total() <= self.sheet.order().pages();
        match self.held.first_key_value() {
            Some((&id, _)) if few && self.held.len() == 1 && id != 0 => Some(id),
            _ => None,
        }
    }
    fn compare(&self) {
        assert_eq!(self.scheme.references(self.sheet), self.total(), "{self:?}");
        for &id in self.held.keys().filter(|id| **id != 0) {
            let said = self.scheme.exclusive(self.sheet, &who(id));
            let truth = self.truth() == Some(id);
            match self.promise {
                Promise::NeverWronglyYes => assert!(truth || !said, "{self:?}: exclusive to {id}"),
                _ => assert_eq!(said, truth, "{self:?}: exclusive to {id}"),
            }
        }
        let named = match self.promise {
            Promise::Names => self.truth().and_then(MmId::new),
            _ => None,
        };
        assert_eq!(self.scheme.owner(self.sheet), named, "{self:?}");
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
