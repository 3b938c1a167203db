//! Poison, in debug builds: freed frames are filled with a pattern, which must be there when they
//! are handed out again.

use super::Mm;
use crate::addr::{Order, PAGE_SIZE, Pfn};
use crate::arch::{Machine, PhysMem};

const POISON: u8 = 0x6b;
static POISON_PAGE: [u8; PAGE_SIZE as usize] = [POISON; PAGE_SIZE as usize];

impl<M: Machine> Mm<M> {
    /// Fills blocks that are about to be free.
    #[inline(always)]
    pub(super) fn poison(&self, blocks: &[Pfn]) {
        let blocks = if cfg!(debug_assertions) { blocks } else { &[] };
        for block in blocks {
            let meta = self.frames().get(*block);
            // A block that is not in use is left as it is: the allocator panics on it.
            let frames = if meta.kind().in_use() {
                meta.order().pages()
            } else {
                0
            };
            for pfn in (0..frames).map(|i| *block + i) {
                self.machine.mem().write(pfn.start(), &POISON_PAGE);
                self.frames().get(pfn).set_poisoned(true);
            }
        }
    }
    /// Returns the block; panics when it was written to while it was free.
    #[inline(always)]
    pub(super) fn check_poison(&self, block: Pfn, order: Order) -> Pfn {
        let frames = if cfg!(debug_assertions) {
            order.pages()
        } else {
            0
        };
        for pfn in (0..frames).map(|i| block + i) {
            let meta = self.frames().get(pfn);
            if meta.poisoned() {
                let mut part = [0; 256];
                let clean = (0..PAGE_SIZE).step_by(part.len()).all(|at| {
                    self.machine.mem().read(pfn.start() + at, &mut part);
                    part == POISON_PAGE[..part.len()]
                });
                assert!(clean, "{pfn:?} was written to after it was freed: {meta:?}");
                meta.set_poisoned(false);
            }
        }
        block
    }
}
