//! RAM as 64-bit words: entries are read and written whole, as hardware does.

use mm::addr::{Order, PAGE_SHIFT, PAGE_SIZE, Pfn, PfnRange, PhysAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use zerocopy::FromZeros;

const WORDS: usize = PAGE_SIZE as usize / 8;

pub struct Ram {
    first: Pfn,
    /// Parts in order of their addresses.
    parts: Vec<PfnRange>,
    words: Vec<AtomicU64>,
}

impl Ram {
    /// RAM of these parts, of which there is at least one.
    pub fn new(parts: Vec<PfnRange>) -> Self {
        let (first, end) = (parts[0].start, parts[parts.len() - 1].end);
        let words = (end - first) as usize * WORDS;
        Ram {
            first,
            parts,
            // The host makes a page of it when it is first touched: most tests touch few.
            words: AtomicU64::new_vec_zeroed(words)
                .expect("the host has no memory for so much RAM"),
        }
    }
    /// Whether the frame exists.
    pub fn contains(&self, pfn: Pfn) -> bool {
        self.parts.iter().any(|part| part.contains(pfn))
    }
    /// One 64-bit word of a frame.
    pub fn word(&self, pfn: Pfn, index: usize) -> &AtomicU64 {
        assert!(
            self.contains(pfn) && index < WORDS,
            "access to {pfn:?}, which is no RAM"
        );
        &self.words[(pfn - self.first) as usize * WORDS + index]
    }
    pub fn zero(&self, first: Pfn, order: Order) {
        for word in self.block(first, order) {
            word.store(0, Ordering::Relaxed);
        }
    }
    pub fn copy(&self, from: Pfn, to: Pfn, order: Order) {
        for (from, to) in self.block(from, order).iter().zip(self.block(to, order)) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
    fn block(&self, first: Pfn, order: Order) -> &[AtomicU64] {
        assert!(
            self.contains(first) && self.contains(first + (order.pages() - 1)),
            "access to {first:?}, which is no RAM"
        );
        let start = (first - self.first) as usize * WORDS;
        &self.words[start..start + order.pages() as usize * WORDS]
    }
    pub fn read(&self, from: PhysAddr, into: &mut [u8]) {
        for (i, byte) in into.iter_mut().enumerate() {
            *byte = self.byte(from + i as u64);
        }
    }
    pub fn write(&self, to: PhysAddr, from: &[u8]) {
        let (words, rest) = from.as_chunks::<8>();
        if to.0 & 7 == 0 {
            for (i, word) in words.iter().enumerate() {
                let at = to + 8 * i as u64;
                self.word(at.frame(), (at.0 & (PAGE_SIZE - 1)) as usize / 8)
                    .store(u64::from_le_bytes(*word), Ordering::Relaxed);
            }
            let tail = to + 8 * words.len() as u64;
            rest.iter()
                .enumerate()
                .for_each(|(i, byte)| self.set_byte(tail + i as u64, *byte));
        } else {
            from.iter()
                .enumerate()
                .for_each(|(i, byte)| self.set_byte(to + i as u64, *byte));
        }
    }
    pub fn byte(&self, at: PhysAddr) -> u8 {
        let word = self
            .word(
                Pfn(at.0 >> PAGE_SHIFT),
                (at.0 & (PAGE_SIZE - 1)) as usize / 8,
            )
            .load(Ordering::Relaxed);
        word.to_le_bytes()[at.0 as usize & 7]
    }
    pub fn set_byte(&self, at: PhysAddr, byte: u8) {
        let word = self.word(
            Pfn(at.0 >> PAGE_SHIFT),
            (at.0 & (PAGE_SIZE - 1)) as usize / 8,
        );
        let set = |word: u64| {
            let mut bytes = word.to_le_bytes();
            bytes[at.0 as usize & 7] = byte;
            Some(u64::from_le_bytes(bytes))
        };
        // Other CPUs may write the other bytes. Never fails.
        let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, set);
    }
}
