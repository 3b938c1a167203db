//! What is best, and what is simple: Belady's optimum (IBM Systems Journal 5(2), 1966) and LRU,
//! page by page and with no more freed than is needed.
use counts::pages::Stream;
use std::collections::BTreeSet;
use std::mem::replace;

/// Pages that come back with `memory` pages (at least 1) where the one leaves whose next use is
/// furthest away.
pub fn belady(stream: &Stream, memory: usize) -> u64 {
    let mut next = vec![usize::MAX; stream.pages.len()];
    let mut keys = vec![0; stream.accesses.len()];
    for (at, (page, _)) in stream.accesses.iter().enumerate().rev() {
        keys[at] = replace(&mut next[*page], at);
    }
    refaults(stream, memory, |at| keys[at])
}

/// Where the one leaves whose last use is furthest away.
pub fn lru(stream: &Stream, memory: usize) -> u64 {
    refaults(stream, memory, |at| usize::MAX - at)
}

/// Where the one with the highest key leaves, which it has from its last access.
fn refaults(stream: &Stream, memory: usize, key: impl Fn(usize) -> usize) -> u64 {
    let mut here = BTreeSet::new();
    let mut keys: Vec<Option<usize>> = vec![None; stream.pages.len()];
    let mut refaults = 0;
    for (at, &(page, _)) in stream.accesses.iter().enumerate() {
        let old = keys[page].replace(key(at));
        if !old.is_some_and(|old| here.remove(&(old, page))) {
            refaults += u64::from(old.is_some());
            if here.len() == memory {
                here.pop_last();
            }
        }
        here.insert((key(at), page));
    }
    refaults
}

#[cfg(test)]
mod tests {
    use super::*;
    use counts::pages::Access;

    /// The example of most textbooks: 9 and 12 faults, of which 6 are first ones.
    #[test]
    fn of_a_known_stream() {
        let pages = [7, 0, 1, 2, 0, 3, 0, 4, 2, 3, 0, 3, 2, 1, 2, 0, 1, 7, 0, 1];
        let stream = Stream::new(&pages.map(Access::of));
        assert_eq!((belady(&stream, 3), lru(&stream, 3)), (9 - 6, 12 - 6));
        assert_eq!((belady(&stream, 6), lru(&stream, 6)), (0, 0));
    }
}
