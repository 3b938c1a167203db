//! The address space that mapped a folio first, and a count of the mappings that are others':
//! "pointer to owner, and a simple counter of non-owners", as it was asked for in the thread of the
//! series behind [`crate::Digits`].
//!
//! ```text
//!     head, first word: references          second word: changes (16) | id of the owner (16) | mappings of others (32)
//!     part 1, first word: changes (32) | mappings of all (32)
//! ```
//! Order 0 has only a plain count.
//!
//! It answers exactly whether the owner has the folio for itself, also after any number of children
//! have come and gone. It does not record the other MMs: after the owner has unmapped the folio, a
//! sole remaining MM never gets it, since a count of others does not show whether they are one.
//! What took the id of an owner that ended is the owner, rightly: all mappings that were the
//! other's are gone by then.
//!
//! # Many CPUs
//! References are counted before a mapping comes and dropped after it is gone. A mapping of
//! another's comes into the count of others first and into that of all then, and leaves in the
//! opposite order; what comes also changes the bits above each count. A reader that finds no
//! others, then reads all and the references, and then the same words again, has met no others'
//! mapping in the count of all, and a moment when the references were as many. 2^16 mappings of
//! others between its looks would deceive it.

use crate::count::references;
use crate::counted::Counted;
use crate::mutant::{self, Mutant};
use crate::sync::{AtomicU64, Ordering};
use crate::{Book, MmId, Owner, Part, sums};

/// The scheme.
#[derive(Clone, Copy, Default, Debug)]
pub struct FirstOwner;

/// The id of the owner begins here.
const ID_AT: u32 = 32;
/// One mapping of another's came.
const CHANGE: u64 = 1 << 48;
/// One mapping of any MM came.
const CHANGE_OF_ALL: u64 = 1 << 32;
const COUNT: u64 = (1 << 32) - 1;

#[inline]
fn others(book: &impl Book) -> &AtomicU64 {
    book.words(0).hi()
}
#[inline]
fn all(book: &impl Book) -> &AtomicU64 {
    book.words(1).lo()
}
#[inline]
fn owner_in(others: u64) -> u16 {
    (others >> ID_AT) as u16
}

/// Whether these are mappings of another than the owner. The owner stays the same while there is
/// any reference.
#[inline]
fn is_other(book: &impl Book, who: &Owner) -> bool {
    who.id != 0 && owner_in(others(book).load(Ordering::Relaxed)) != who.id
}

/// `n` mappings more. Returns the read-modify-writes.
#[inline]
fn map(book: &impl Book, who: &Owner, n: u64) -> u32 {
    let other = is_other(book, who) && !mutant::on(Mutant::OthersUncounted);
    if other {
        others(book).fetch_add(CHANGE + n, Ordering::Relaxed);
    }
    // Release pairs with the acquire of a reader: a reader that sees this also sees the count of
    // others.
    all(book).fetch_add(CHANGE_OF_ALL + n, Ordering::Release);
    1 + u32::from(other)
}

/// `n` mappings less. Returns the read-modify-writes.
#[inline]
fn unmap(book: &impl Book, who: &Owner, n: u64) -> u32 {
    // Release pairs with the acquire of a reader, here and below: what was done to the pages comes
    // before.
    all(book).fetch_sub(n, Ordering::Release);
    let other = is_other(book, who);
    if other {
        others(book).fetch_sub(n, Ordering::Release);
    }
    1 + u32::from(other)
}

/// The owner, if all references but `plain` are its mappings.
fn sole_owner(book: &impl Book, plain: u64) -> Option<u16> {
    let before = others(book).load(Ordering::Acquire);
    let mapped = all(book).load(Ordering::Acquire);
    let held = references(book).get().wrapping_sub(plain);
    let sole = before & COUNT == 0 && held == mapped & COUNT && held <= book.order().pages();
    let same = all(book).load(Ordering::Acquire) == mapped
        && others(book).load(Ordering::Relaxed) == before;
    (sole && same && held != 0).then_some(owner_in(before))
}

impl Counted for FirstOwner {
    #[inline]
    fn begin(&self, book: &impl Book, who: &Owner, part: Part) {
        others(book).store(u64::from(who.id) << ID_AT, Ordering::Relaxed);
        all(book).store(u64::from(part.n) * who.mapped(), Ordering::Relaxed);
    }

    #[inline(always)]
    fn enter(&self, book: &impl Book, who: &Owner, part: Part) -> u32 {
        match who.id {
            0 => 0,
            _ => map(book, who, part.n.into()),
        }
    }

    #[inline(always)]
    fn leave(&self, book: &impl Book, who: &Owner, part: Part) -> u32 {
        match who.id {
            0 => 0,
            _ => unmap(book, who, part.n.into()),
        }
    }

    #[inline]
    fn pass(&self, book: &impl Book, from: &Owner, to: &Owner, n: u32) -> u32 {
        let n = u64::from(n);
        match (from.id, to.id) {
            (from, to) if from == to => 0,
            (_, 0) => unmap(book, from, n),
            (0, _) => map(book, to, n),
            // How many there are of all stays.
            _ => match (is_other(book, from), is_other(book, to)) {
                (false, true) => {
                    others(book).fetch_add(CHANGE + n, Ordering::Release);
                    1
                }
                (true, false) => {
                    others(book).fetch_sub(n, Ordering::Release);
                    1
                }
                _ => 0,
            },
        }
    }

    #[inline(always)]
    fn end(&self, book: &impl Book) {
        others(book).store(0, Ordering::Relaxed);
        all(book).store(0, Ordering::Relaxed);
    }

    fn all_are(&self, book: &impl Book, who: &Owner, plain: u64) -> bool {
        sole_owner(book, plain) == Some(who.id)
    }

    fn same_id(&self, book: &impl Book) -> Option<MmId> {
        MmId::new(sole_owner(book, 0)?)
    }

    fn agrees(&self, book: &impl Book, held: &[(Owner, u64)]) -> bool {
        let (_, mapped) = sums(held);
        let others = others(book).load(Ordering::Relaxed);
        let own = held.iter().filter(|(who, _)| who.id == owner_in(others));
        let own: u64 = own.map(|(who, n)| n * who.mapped()).sum();
        all(book).load(Ordering::Relaxed) & COUNT == mapped && others & COUNT == mapped - own
    }
}
