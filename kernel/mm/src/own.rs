//! The account, a crate of its own ([`::own`]), and the scheme that `account=` names.

pub use ::own::*;

use crate::switch::{AccountScheme, Switches};

/// The scheme that the switches choose. They must not change while anybody has a folio: they are set at boot.
#[derive(Clone, Copy)]
pub struct Chosen<'a>(pub &'a Switches);

/// One of the schemes to compare with: called, so that [`Unified`] is all that stands where the account is used.
struct Other<'a>(&'a Switches, AccountScheme);

impl<'a> Chosen<'a> {
    /// The other scheme, if it is not [`Unified`].
    #[inline]
    fn other(&self) -> Option<Other<'a>> {
        let scheme = self.0.account();
        (scheme != AccountScheme::Unified).then_some(Other(self.0, scheme))
    }
}

impl Other<'_> {
    #[inline]
    fn digits(&self) -> Digits {
        Digits {
            stored: self.0.subids_stored(),
            exclusive: self.0.writer_exclusive(),
            add: self.0.seq_add(),
        }
    }
}

/// `Account` for both: each method by `$ask`, with `$attribute`.
macro_rules! account {
    ($name:ty, $ask:ident, #[$attribute:meta]) => {
        impl Account for $name {
            #[$attribute]
            fn begin(&self, book: &impl Book, who: &Owner, n: u32, meter: &mut Meter) {
                $ask!(self, scheme => scheme.begin(book, who, n, meter))
            }
            #[$attribute]
            fn add(&self, book: &impl Book, who: &Owner, n: u32, meter: &mut Meter) {
                $ask!(self, scheme => scheme.add(book, who, n, meter))
            }
            #[$attribute]
            fn sub(&self, book: &impl Book, who: &Owner, n: u32, meter: &mut Meter) -> bool {
                $ask!(self, scheme => scheme.sub(book, who, n, meter))
            }
            #[$attribute]
            fn pass(&self, book: &impl Book, from: &Owner, to: &Owner, n: u32, meter: &mut Meter) {
                $ask!(self, scheme => scheme.pass(book, from, to, n, meter))
            }
            #[$attribute]
            fn references(&self, book: &impl Book) -> u64 {
                $ask!(self, scheme => scheme.references(book))
            }
            #[$attribute]
            fn exclusive_but(&self, book: &impl Book, who: &Owner, plain: u64) -> bool {
                $ask!(self, scheme => scheme.exclusive_but(book, who, plain))
            }
            #[$attribute]
            fn owner(&self, book: &impl Book) -> Option<MmId> {
                $ask!(self, scheme => scheme.owner(book))
            }
            #[$attribute]
            fn agrees(&self, book: &impl Book, held: &[(Owner, u64)]) -> bool {
                $ask!(self, scheme => scheme.agrees(book, held))
            }
        }
    };
}

macro_rules! unified_or_other {
    ($chosen:expr, $scheme:ident => $question:expr) => {
        match $chosen.other() {
            None => {
                let $scheme = Unified;
                $question
            }
            Some($scheme) => $question,
        }
    };
}

macro_rules! which_other {
    ($other:expr, $scheme:ident => $question:expr) => {
        match $other.1 {
            AccountScheme::Total => {
                let $scheme = Total;
                $question
            }
            AccountScheme::TwoSlot => {
                let $scheme = TwoSlot;
                $question
            }
            _ => {
                let $scheme = $other.digits();
                $question
            }
        }
    };
}

account!(Chosen<'_>, unified_or_other, #[inline(always)]);
account!(Other<'_>, which_other, #[inline(never)]);
