//! The account of the references to a folio (the crate [`::own`]), with the scheme that `account=`
//! chooses.

pub use ::own::*;

use crate::switch::{AccountScheme, Accounting, Switches};

/// The scheme that the switches choose at boot; they must not change while a folio is in use.
///
/// A loop chooses once, by [`with_scheme`], so that every scheme is compiled into it. A single
/// operation has the default scheme and single pages in line, and calls the others.
#[derive(Clone, Copy)]
pub struct ChosenScheme<'a>(pub &'a Switches);

impl ChosenScheme<'_> {
    fn chosen(&self) -> &Self {
        self
    }
    /// The scheme, and what it counts beside the references.
    #[inline]
    pub(crate) fn accounting(&self) -> Accounting {
        self.0.accounting()
    }
    /// [`Digits`] with its settings.
    #[inline]
    pub(crate) fn digits(&self) -> Digits {
        Digits {
            stored: self.0.subids_stored(),
            exclusive: self.0.writer_exclusive(),
            add: self.0.seq_add(),
            pages: self.accounting().counts_pages() && self.accounting().in_section(),
        }
    }
}

/// Does `$work` with `$scheme` as `$account`.
macro_rules! with {
    ($account:ident = $scheme:expr; $work:expr) => {{
        let $account = $scheme;
        $work
    }};
}
pub(crate) use with;

/// Does `$work` with the chosen scheme as `$account`, of its own type.
macro_rules! with_scheme {
    ($chosen:expr, $account:ident => $work:expr) => {{
        use $crate::own::{FirstOwner, Paged, PerPage, Total, TwoSlot, Unified};
        use $crate::switch::AccountScheme as Scheme;
        let chosen = $chosen;
        let accounting = chosen.accounting();
        match (accounting.scheme(), accounting.counts_pages()) {
            // Asked by one comparison.
            _ if accounting == $crate::switch::Accounting::PLAIN => $crate::own::with!($account = Unified; $work),
            (Scheme::PerPage, _) => $crate::own::with!($account = PerPage; $work),
            (Scheme::Total, false) => $crate::own::with!($account = Total; $work),
            (Scheme::TwoSlot, false) => $crate::own::with!($account = TwoSlot; $work),
            (Scheme::FirstOwner, false) => $crate::own::with!($account = FirstOwner; $work),
            (Scheme::Digits, false) => $crate::own::with!($account = chosen.digits(); $work),
            (Scheme::Digits, true) if accounting.in_section() => $crate::own::with!($account = chosen.digits(); $work),
            (Scheme::Digits, true) => $crate::own::with!($account = Paged(chosen.digits()); $work),
            (Scheme::Unified, _) => $crate::own::with!($account = Paged(Unified); $work),
            (Scheme::Total, true) => $crate::own::with!($account = Paged(Total); $work),
            (Scheme::TwoSlot, true) => $crate::own::with!($account = Paged(TwoSlot); $work),
            (Scheme::FirstOwner, true) => $crate::own::with!($account = Paged(FirstOwner); $work),
        }
    }};
}
pub(crate) use with_scheme;

/// Does `$work` with what counts folios of order 0 in the chosen scheme as `$account`: so loops
/// over single pages are the same code in all schemes that keep a plain count for them.
macro_rules! with_single {
    ($chosen:expr, $account:ident => $work:expr) => {{
        use $crate::own::{Single, Unified};
        match $chosen.accounting().scheme() {
            $crate::switch::AccountScheme::Unified => $crate::own::with!($account = Unified; $work),
            _ => $crate::own::with!($account = Single; $work),
        }
    }};
}
pub(crate) use with_single;

/// A scheme to compare with, for a folio of more than one page.
struct OtherScheme<'a>(ChosenScheme<'a>);

impl<'a> OtherScheme<'a> {
    fn chosen(&self) -> &ChosenScheme<'a> {
        &self.0
    }
}

/// Implements [`Account`] for `$name`: each method by `$ask`, with `$attribute`.
macro_rules! account {
    ($name:ty, $ask:ident, #[$attribute:meta]) => {
        account! { $name, $ask, #[$attribute]
            begin(who: &Owner, part: Part, meter: &mut Meter);
            refer(who: &Owner, n: u32, meter: &mut Meter);
            enter(who: &Owner, part: Part, meter: &mut Meter);
            enter_again(who: &Owner, part: Part, meter: &mut Meter);
            leave(who: &Owner, part: Part, meter: &mut Meter);
            unrefer(who: &Owner, n: u32, meter: &mut Meter) -> bool;
            map(who: &Owner, part: Part, meter: &mut Meter);
            unmap(who: &Owner, part: Part, meter: &mut Meter) -> bool;
            pass(from: &Owner, to: &Owner, n: u32, meter: &mut Meter);
            references() -> u64;
            all_are(who: &Owner, plain: u64) -> bool;
            same_id() -> Option<MmId>;
            agrees(held: &[(Owner, u64)]) -> bool;
            split_leaf(meter: &mut Meter);
            page_count(i: usize) -> Option<u32>;
            forget_pages();
        }
    };
    ($name:ty, $ask:ident, #[$attribute:meta]
        $($method:ident($($arg:ident: $type:ty),*) $(-> $answer:ty)?;)*) => {
        impl Account for $name {
            #[$attribute]
            fn counts_pages(&self) -> bool {
                self.chosen().accounting().counts_pages()
            }
            $(#[$attribute]
            fn $method(&self, book: &impl Book $(, $arg: $type)*) $(-> $answer)? {
                $ask!(self, book, scheme => scheme.$method(book $(, $arg)*))
            })*
        }
    };
}

macro_rules! in_line {
    ($chosen:expr, $book:expr, $scheme:ident => $question:expr) => {
        if $chosen.accounting() == Accounting::PLAIN {
            with!($scheme = Unified; $question)
        } else if $book.order() == Order(0) && $chosen.accounting().scheme() != AccountScheme::Unified {
            with!($scheme = Single; $question)
        } else {
            with!($scheme = OtherScheme(*$chosen); $question)
        }
    };
}

macro_rules! out_of_line {
    ($called:expr, $book:expr, $scheme:ident => $question:expr) => {
        with_scheme!($called.0, $scheme => $question)
    };
}

account!(ChosenScheme<'_>, in_line, #[inline(always)]);
account!(OtherScheme<'_>, out_of_line, #[inline(never)]);
