//! The pool of address-space tags (ASID, PCID): with a tag, a switch of spaces need not empty the
//! TLB.

use crate::arch::Asid;

/// The most tags in the pool: address spaces beyond that share tag 0, which is flushed at each
/// switch.
const LIMIT: usize = 1024;

/// A pool of tags. A tag goes back only after `Tlb::flush_asid`, so its next space never uses
/// translations of the last one.
pub struct AsidPool {
    used: [u64; LIMIT / 64],
    count: usize,
    next: usize,
}

impl AsidPool {
    /// A pool for hardware with `asids` tags, 0 included.
    pub fn new(asids: usize) -> Self {
        AsidPool {
            used: [0; LIMIT / 64],
            count: asids.min(LIMIT),
            next: 1,
        }
    }

    /// Takes a free tag; 0 ("no tag") when there is none.
    pub fn take(&mut self) -> Asid {
        for step in 0..self.count.saturating_sub(1) {
            // Round robin over 1..count: a tag rests as long as possible before it is used again.
            let id = (self.next - 1 + step) % (self.count - 1) + 1;
            if self.used[id / 64] & (1 << (id % 64)) == 0 {
                self.used[id / 64] |= 1 << (id % 64);
                self.next = id % (self.count - 1) + 1;
                return Asid(id as u16);
            }
        }
        Asid(0)
    }

    /// Gives a tag back.
    pub fn give(&mut self, asid: Asid) {
        let id = asid.0 as usize;
        if id != 0 {
            assert!(
                self.used[id / 64] & (1 << (id % 64)) != 0,
                "tag {id} given back twice"
            );
            self.used[id / 64] &= !(1 << (id % 64));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_unique_until_given_back() {
        let mut pool = AsidPool::new(4);
        assert_eq!(
            [pool.take(), pool.take(), pool.take(), pool.take()],
            [Asid(1), Asid(2), Asid(3), Asid(0)]
        );
        pool.give(Asid(2));
        assert_eq!([pool.take(), pool.take()], [Asid(2), Asid(0)]);
    }

    #[test]
    fn no_tags_means_tag_zero() {
        assert_eq!(AsidPool::new(1).take(), Asid(0));
        assert_eq!(AsidPool::new(0).take(), Asid(0));
    }
}
