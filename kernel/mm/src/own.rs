//! The account, a crate of its own ([`::own`]), and the scheme that `account=` names.

pub use ::own::*;

use crate::switch::{AccountScheme, Kept, Switches};

/// The scheme that the switches choose. They must not change while anybody has a folio: they are
/// set at boot.
///
/// Loops choose once, by [`with_scheme`], so that every scheme is compiled into them as the default
/// one is. One operation at a time finds the default and single pages in place; the others are
/// called.
#[derive(Clone, Copy)]
pub struct Chosen<'a>(pub &'a Switches);

impl Chosen<'_> {
    fn chosen(&self) -> &Self {
        self
    }
    /// How it is kept.
    #[inline]
    pub(crate) fn kept(&self) -> Kept {
        self.0.kept()
    }
    /// [`Digits`] with its settings.
    #[inline]
    pub(crate) fn digits(&self) -> Digits {
        Digits {
            stored: self.0.subids_stored(),
            exclusive: self.0.writer_exclusive(),
            add: self.0.seq_add(),
            pages: self.kept().counts_pages() && self.kept().in_section(),
        }
    }
}

/// Does `$work` with the chosen scheme as `$account`, of its own type.
macro_rules! with_scheme {
    ($chosen:expr, $account:ident => $work:expr) => {{
        use $crate::own::{FirstOwner, Paged, PerPage, Total, TwoSlot, Unified};
        use $crate::switch::AccountScheme;
        let chosen = $chosen;
        let kept = chosen.kept();
        match (kept.scheme(), kept.counts_pages()) {
            // Asked by one comparison.
            _ if kept == $crate::switch::Kept::PLAIN => {
                let $account = Unified;
                $work
            }
            (AccountScheme::PerPage, _) => {
                let $account = PerPage;
                $work
            }
            (AccountScheme::Total, false) => {
                let $account = Total;
                $work
            }
            (AccountScheme::TwoSlot, false) => {
                let $account = TwoSlot;
                $work
            }
            (AccountScheme::FirstOwner, false) => {
                let $account = FirstOwner;
                $work
            }
            (AccountScheme::Digits, counted) if !counted || kept.in_section() => {
                let $account = chosen.digits();
                $work
            }
            (AccountScheme::Digits, _) => {
                let $account = Paged(chosen.digits());
                $work
            }
            (AccountScheme::Unified, _) => {
                let $account = Paged(Unified);
                $work
            }
            (AccountScheme::Total, true) => {
                let $account = Paged(Total);
                $work
            }
            (AccountScheme::TwoSlot, true) => {
                let $account = Paged(TwoSlot);
                $work
            }
            (AccountScheme::FirstOwner, true) => {
                let $account = Paged(FirstOwner);
                $work
            }
        }
    }};
}
pub(crate) use with_scheme;

/// Does `$work` with what counts folios of order 0 in the chosen scheme as `$account`: so loops
/// over single pages are the same code in all schemes that keep a plain count for them.
macro_rules! with_single {
    ($chosen:expr, $account:ident => $work:expr) => {{
        use $crate::own::{Single, Unified};
        if $chosen.kept().scheme() == $crate::switch::AccountScheme::Unified {
            let $account = Unified;
            $work
        } else {
            let $account = Single;
            $work
        }
    }};
}
pub(crate) use with_single;

/// A scheme to compare with, for a folio of more than one page.
struct Called<'a>(Chosen<'a>);

impl<'a> Called<'a> {
    fn chosen(&self) -> &Chosen<'a> {
        &self.0
    }
}

/// `Account` for both: each method by `$ask`, with `$attribute`.
macro_rules! account {
    ($name:ty, $ask:ident, #[$attribute:meta]) => {
        impl Account for $name {
            #[$attribute]
            fn counts_pages(&self) -> bool {
                self.chosen().kept().counts_pages()
            }
            #[$attribute]
            fn begin(&self, book: &impl Book, who: &Owner, part: Part, meter: &mut Meter) {
                $ask!(self, book, scheme => scheme.begin(book, who, part, meter))
            }
            #[$attribute]
            fn refer(&self, book: &impl Book, who: &Owner, n: u32, meter: &mut Meter) {
                $ask!(self, book, scheme => scheme.refer(book, who, n, meter))
            }
            #[$attribute]
            fn enter(&self, book: &impl Book, who: &Owner, part: Part, meter: &mut Meter) {
                $ask!(self, book, scheme => scheme.enter(book, who, part, meter))
            }
            #[$attribute]
            fn enter_again(&self, book: &impl Book, who: &Owner, part: Part, meter: &mut Meter) {
                $ask!(self, book, scheme => scheme.enter_again(book, who, part, meter))
            }
            #[$attribute]
            fn leave(&self, book: &impl Book, who: &Owner, part: Part, meter: &mut Meter) {
                $ask!(self, book, scheme => scheme.leave(book, who, part, meter))
            }
            #[$attribute]
            fn unrefer(&self, book: &impl Book, who: &Owner, n: u32, meter: &mut Meter) -> bool {
                $ask!(self, book, scheme => scheme.unrefer(book, who, n, meter))
            }
            #[$attribute]
            fn map(&self, book: &impl Book, who: &Owner, part: Part, meter: &mut Meter) {
                $ask!(self, book, scheme => scheme.map(book, who, part, meter))
            }
            #[$attribute]
            fn unmap(&self, book: &impl Book, who: &Owner, part: Part, meter: &mut Meter) -> bool {
                $ask!(self, book, scheme => scheme.unmap(book, who, part, meter))
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
            fn all_are(&self, book: &impl Book, who: &Owner, plain: u64) -> bool {
                $ask!(self, book, scheme => scheme.all_are(book, who, plain))
            }
            #[$attribute]
            fn same_id(&self, book: &impl Book) -> Option<MmId> {
                $ask!(self, book, scheme => scheme.same_id(book))
            }
            #[$attribute]
            fn agrees(&self, book: &impl Book, held: &[(Owner, u64)]) -> bool {
                $ask!(self, book, scheme => scheme.agrees(book, held))
            }
            fn split_leaf(&self, book: &impl Book, meter: &mut Meter) {
                $ask!(self, book, scheme => scheme.split_leaf(book, meter))
            }
            fn page_count(&self, book: &impl Book, i: usize) -> Option<u32> {
                $ask!(self, book, scheme => scheme.page_count(book, i))
            }
            fn forget_pages(&self, book: &impl Book) {
                $ask!(self, book, scheme => scheme.forget_pages(book))
            }
        }
    };
}

macro_rules! in_place {
    ($chosen:expr, $book:expr, $scheme:ident => $question:expr) => {
        if $chosen.kept() == Kept::PLAIN {
            let $scheme = Unified;
            $question
        } else if $book.order() == Order(0) && $chosen.kept().scheme() != AccountScheme::Unified {
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
