//! The account, a crate of its own ([`::own`]), and the scheme that `account=` names.

pub use ::own::*;

use crate::switch::{AccountScheme, Switches};

/// The scheme that the switches choose. They must not change while anybody has a folio: they are set at boot.
///
/// Loops choose once, by [`with_scheme`], so that every scheme is compiled into them as the default one is. One operation at a
/// time finds the default and single pages in place; the others are called.
#[derive(Clone, Copy)]
pub struct Chosen<'a>(pub &'a Switches);

impl Chosen<'_> {
    /// [`Digits`] with its settings.
    #[inline]
    pub(crate) fn digits(&self) -> Digits {
        Digits {
            stored: self.0.subids_stored(),
            exclusive: self.0.writer_exclusive(),
            add: self.0.seq_add(),
        }
    }
}

/// Does `$work` with the chosen scheme as `$account`, of its own type.
macro_rules! with_scheme {
    ($chosen:expr, $account:ident => $work:expr) => {{
        use $crate::own::{FirstOwner, Total, TwoSlot, Unified};
        use $crate::switch::AccountScheme;
        let chosen = $chosen;
        match chosen.0.account() {
            AccountScheme::Unified => {
                let $account = Unified;
                $work
            }
            AccountScheme::Total => {
                let $account = Total;
                $work
            }
            AccountScheme::TwoSlot => {
                let $account = TwoSlot;
                $work
            }
            AccountScheme::FirstOwner => {
                let $account = FirstOwner;
                $work
            }
            AccountScheme::Digits => {
                let $account = chosen.digits();
                $work
            }
        }
    }};
}
pub(crate) use with_scheme;

/// A scheme to compare with, for a folio of more than one page.
struct Called<'a>(Chosen<'a>);

/// `Account` for both: each method by `$ask`, with `$attribute`.
macro_rules! account {
    ($name:ty, $ask:ident, #[$attribute:meta]) => {
        impl Account for $name {
            #[$attribute]
            fn begin(&self, book: &impl Book, who: &Owner, n: u32, meter: &mut Meter) {
                $ask!(self, book, scheme => scheme.begin(book, who, n, meter))
            }
            #[$attribute]
            fn add(&self, book: &impl Book, who: &Owner, n: u32, meter: &mut Meter) {
                $ask!(self, book, scheme => scheme.add(book, who, n, meter))
            }
            #[$attribute]
            fn sub(&self, book: &impl Book, who: &Owner, n: u32, meter: &mut Meter) -> bool {
                $ask!(self, book, scheme => scheme.sub(book, who, n, meter))
            }
            #[$attribute]
            fn pass(&self, book: &impl Book, from: &Owner, to: &Owner, n: u32, meter: &mut Meter) {
                $ask!(self, book, scheme => scheme.pass(book, from, to, n, meter))
            }
            #[$attribute]
            fn references(&self, book: &impl Book) -> u64 {
                $ask!(self, book, scheme => scheme.references(book))
            }
            #[$attribute]
            fn exclusive_but(&self, book: &impl Book, who: &Owner, plain: u64) -> bool {
                $ask!(self, book, scheme => scheme.exclusive_but(book, who, plain))
            }
            #[$attribute]
            fn owner(&self, book: &impl Book) -> Option<MmId> {
                $ask!(self, book, scheme => scheme.owner(book))
            }
            #[$attribute]
            fn agrees(&self, book: &impl Book, held: &[(Owner, u64)]) -> bool {
                $ask!(self, book, scheme => scheme.agrees(book, held))
            }
        }
    };
}

macro_rules! in_place {
    ($chosen:expr, $book:expr, $scheme:ident => $question:expr) => {
        if $chosen.0.account() == AccountScheme::Unified {
            let $scheme = Unified;
            $question
        } else if $book.order() == Order(0) {
            let $scheme = Single;
            $question
        } else {
            let $scheme = Called(*$chosen);
            $question
        }
    };
}

macro_rules! by_call {
    ($called:expr, $book:expr, $scheme:ident => $question:expr) => {
        with_scheme!($called.0, $scheme => $question)
    };
}

account!(Chosen<'_>, in_place, #[inline(always)]);
account!(Called<'_>, by_call, #[inline(never)]);
