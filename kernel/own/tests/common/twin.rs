//! A scheme that is wrong: the ownership word without its count, and the references beside it.
//! Alone it is right; on two CPUs a reader pairs the owners of one moment with the references of
//! another.

use own::sync::Ordering;
use own::{Account, Book, Meter, MmId, Owner, Part};

/// The racy twin of `Unified`.
#[derive(Clone, Copy)]
pub struct Twin;

/// The digit is the id; its square lies above.
fn weight(who: &Owner) -> u64 {
    let id = u64::from(who.id().map_or(0, MmId::get));
    (id * id) << 32 | id
}

impl Account for Twin {
    fn begin(&self, book: &impl Book, who: &Owner, part: Part, _: &mut Meter) {
        let n = part.n;
        book.words(0).lo().store(n.into(), Ordering::Relaxed);
        let sum = weight(who) * u64::from(n);
        book.words(0).hi().store(sum, Ordering::Relaxed);
    }
    fn refer(&self, book: &impl Book, who: &Owner, n: u32, meter: &mut Meter) {
        book.words(0).lo().fetch_add(n.into(), Ordering::AcqRel);
        self.pass(book, &Owner::PLAIN, who, n, meter);
    }
    fn unrefer(&self, book: &impl Book, who: &Owner, n: u32, meter: &mut Meter) -> bool {
        self.pass(book, who, &Owner::PLAIN, n, meter);
        book.words(0).lo().fetch_sub(n.into(), Ordering::AcqRel) == n.into()
    }
    fn pass(&self, book: &impl Book, from: &Owner, to: &Owner, n: u32, _: &mut Meter) {
        let change = weight(to).wrapping_sub(weight(from));
        let change = change.wrapping_mul(n.into());
        book.words(0).hi().fetch_add(change, Ordering::AcqRel);
    }
    fn references(&self, book: &impl Book) -> u64 {
        book.words(0).lo().load(Ordering::Acquire)
    }
    fn all_are(&self, book: &impl Book, who: &Owner, plain: u64) -> bool {
        let owners = book.words(0).hi().load(Ordering::Acquire);
        let count = self.references(book).wrapping_sub(plain);
        count <= book.order().pages() && owners == count * weight(who)
    }
    fn same_id(&self, _: &impl Book) -> Option<MmId> {
        None
    }
    fn agrees(&self, book: &impl Book, held: &[(Owner, u64)]) -> bool {
        let sum: u64 = held.iter().map(|(who, n)| n * weight(who)).sum();
        let all: u64 = held.iter().map(|(_, n)| n).sum();
        self.references(book) == all && book.words(0).hi().load(Ordering::Acquire) == sum
    }
}
