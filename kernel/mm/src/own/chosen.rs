//! The scheme that `account=` names.

use super::{Account, Book, Digits, Meter, MmId, Owner, Total, TwoSlot, Unified};
use crate::switch::{AccountScheme, Switches};

/// The scheme that the switches choose. They must not change while anybody has a folio: they are set at boot.
#[derive(Clone, Copy)]
pub struct Chosen<'a>(pub &'a Switches);

impl Chosen<'_> {
    fn digits(&self) -> Digits {
        Digits {
            stored: self.0.subids_stored(),
            exclusive: self.0.writer_exclusive(),
            add: self.0.seq_add(),
        }
    }
}

/// The same question to the scheme that is chosen.
macro_rules! ask {
    ($chosen:expr, $scheme:ident => $question:expr) => {
        match $chosen.0.account() {
            AccountScheme::Unified => {
                let $scheme = Unified;
                $question
            }
            AccountScheme::Digits => {
                let $scheme = $chosen.digits();
                $question
            }
            AccountScheme::TwoSlot => {
                let $scheme = TwoSlot;
                $question
            }
            AccountScheme::Total => {
                let $scheme = Total;
                $question
            }
        }
    };
}

impl Account for Chosen<'_> {
    #[inline]
    fn begin(&self, book: &impl Book, who: &Owner, n: u32, meter: &mut Meter) {
        ask!(self, scheme => scheme.begin(book, who, n, meter))
    }
    #[inline]
    fn add(&self, book: &impl Book, who: &Owner, n: u32, meter: &mut Meter) {
        ask!(self, scheme => scheme.add(book, who, n, meter))
    }
    #[inline]
    fn sub(&self, book: &impl Book, who: &Owner, n: u32, meter: &mut Meter) -> bool {
        ask!(self, scheme => scheme.sub(book, who, n, meter))
    }
    #[inline]
    fn pass(&self, book: &impl Book, from: &Owner, to: &Owner, n: u32, meter: &mut Meter) {
        ask!(self, scheme => scheme.pass(book, from, to, n, meter))
    }
    #[inline]
    fn references(&self, book: &impl Book) -> u64 {
        ask!(self, scheme => scheme.references(book))
    }
    #[inline]
    fn exclusive(&self, book: &impl Book, who: &Owner) -> bool {
        ask!(self, scheme => scheme.exclusive(book, who))
    }
    fn owner(&self, book: &impl Book) -> Option<MmId> {
        ask!(self, scheme => scheme.owner(book))
    }
    fn agrees(&self, book: &impl Book, held: &[(Owner, u64)]) -> bool {
        ask!(self, scheme => scheme.agrees(book, held))
    }
}
