//! Where things go: Linux's places, moved by random amounts unless that is switched off.

use super::randomised;
use crate::arch::pte::Format;
use crate::base::random;
use crate::process::task::{Limits, Process, Resource};
use mm::addr::{PAGE_SIZE, VirtAddr};
use mm::arch::PteFormat;

/// Places for one program.
pub struct Offsets {
    /// One past the stack.
    pub stack_top: VirtAddr,
    /// Mappings go downwards from here.
    pub mmap_top: VirtAddr,
    /// A position-independent program goes here or above.
    pub base: VirtAddr,
    /// Bytes between the program's end and its heap.
    pub brk_gap: u64,
    /// Bytes, below 16, that move the stack pointer within its page.
    pub stack_shift: u64,
}

/// Two thirds of user space, as Linux has it.
const BASE: u64 = Format::USER_END.0 / 3 * 2;
/// 2^22 pages: 16 GiB.
const STACK_PAGES: u64 = 1 << 22;
/// 2^28 pages: 1 TiB.
const MMAP_PAGES: u64 = 1 << 28;
/// 32 MiB.
const BRK_PAGES: u64 = 1 << 13;
/// Room for the stack to grow, at the least and at the most.
const GAP: (u64, u64) = (128 << 20, Format::USER_END.0 / 6 * 5);

impl Offsets {
    /// Places for a program that `process` is about to become.
    pub fn new(limits: &Limits, process: &Process) -> Self {
        let randomised = randomised(process);
        let pages = |count: u64| {
            if randomised {
                random::u64() % count * PAGE_SIZE
            } else {
                0
            }
        };
        let stack_max = if randomised {
            STACK_PAGES * PAGE_SIZE
        } else {
            0
        };
        let gap = limits.soft(Resource::Stack).clamp(GAP.0, GAP.1 - stack_max) & !(PAGE_SIZE - 1);
        Self {
            stack_top: VirtAddr(Format::USER_END.0 - pages(STACK_PAGES)),
            mmap_top: VirtAddr(Format::USER_END.0 - gap - stack_max - pages(MMAP_PAGES)),
            base: VirtAddr((BASE & !(PAGE_SIZE - 1)) + pages(MMAP_PAGES)),
            brk_gap: pages(BRK_PAGES),
            stack_shift: if randomised {
                random::u64() % 512 * 16
            } else {
                0
            },
        }
    }
}
