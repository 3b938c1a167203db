//! Kernel stacks: 32 KiB each, with an unmapped guard of the same size below, in their own area of
//! the kernel half. Their frames are anywhere: memory may be in pieces. A limited number of freed
//! stacks are cached, mapped, for the next threads.

use crate::arch::boot::STACK_AREA;
use crate::base::errno::{Errno, Result};
use crate::base::machine::{kernel_space, mm};
use crate::base::ranks;
use alloc::vec::Vec;
use arrayvec::ArrayVec;
use core::mem::ManuallyDrop;
use locks::Apart;
use mm::addr::{Order, PAGE_SIZE, Pfn, VirtAddr, VirtRange};
use mm::arch::Attrs;
use mm::sync::Lock;

const PAGES: usize = 8;
/// Bytes of a stack.
pub const SIZE: u64 = PAGES as u64 * PAGE_SIZE;
/// A stack and the guard below it.
const STRIDE: u64 = 2 * SIZE;
/// Stacks kept mapped for the next thread: fork and exit in a loop map nothing. Few, so that the
/// pool is full after any burst and free frames can be compared before and after the next one.
const KEPT: usize = 8;
const MAX_SLOTS: u32 = 1 << 19;

struct StackPool {
    ready: Vec<ManuallyDrop<KernelStack>>,
    free_slots: Vec<u32>,
    next_slot: u32,
}

static POOL: Apart<Lock<StackPool, { ranks::KERNEL_STACKS }>> = Apart(Lock::new(StackPool {
    ready: Vec::new(),
    free_slots: Vec::new(),
    next_slot: 0,
}));

/// A mapped kernel stack; dropping it frees it.
pub struct KernelStack {
    slot: u32,
    frames: ArrayVec<Pfn, PAGES>,
}

impl KernelStack {
    /// A stack with undefined contents. ENOMEM without frames or address space.
    pub fn new() -> Result<Self> {
        let mut pool = POOL.lock();
        if let Some(stack) = pool.ready.pop() {
            return Ok(ManuallyDrop::into_inner(stack));
        }
        let mut stack = ManuallyDrop::new(Self {
            slot: pool.take_slot().ok_or(Errno::ENOMEM)?,
            frames: ArrayVec::new(),
        });
        if !(0..PAGES).all(|_| stack.grow()) {
            pool.unmap(stack);
            return Err(Errno::ENOMEM);
        }
        Ok(ManuallyDrop::into_inner(stack))
    }

    /// Takes one more frame, and maps it; `false`: there is no memory.
    fn grow(&mut self) -> bool {
        let Some(frame) = mm().alloc_kernel(Order(0)) else {
            return false;
        };
        let attrs = Attrs::WRITE | Attrs::GLOBAL | Attrs::ACCESSED | Attrs::DIRTY;
        let at = self.range().start + self.frames.len() as u64 * PAGE_SIZE;
        self.frames.push(frame);
        let page = VirtRange::new(at, at + PAGE_SIZE);
        kernel_space().map(page, frame.start(), attrs).is_ok()
    }

    /// One past the highest address: where the first frame is pushed.
    pub fn top(&self) -> u64 {
        self.range().end.0
    }

    fn range(&self) -> VirtRange {
        let end = VirtAddr(STACK_AREA + (u64::from(self.slot) + 1) * STRIDE);
        VirtRange::new(VirtAddr(end.0 - SIZE), end)
    }
}

/// Frees the cached stacks.
pub fn shrink() {
    let mut pool = POOL.lock();
    while let Some(stack) = pool.ready.pop() {
        pool.unmap(stack);
    }
}

impl Drop for KernelStack {
    fn drop(&mut self) {
        let (slot, frames) = (self.slot, self.frames.take());
        let stack = ManuallyDrop::new(KernelStack { slot, frames });
        let mut pool = POOL.lock();
        match pool.ready.len() < KEPT {
            true => pool.ready.push(stack),
            false => pool.unmap(stack),
        }
    }
}

impl StackPool {
    fn unmap(&mut self, stack: ManuallyDrop<KernelStack>) {
        kernel_space().unmap(stack.range());
        for frame in &stack.frames {
            mm().free_kernel(*frame, Order(0));
        }
        self.free_slots.push(stack.slot);
    }
    fn take_slot(&mut self) -> Option<u32> {
        if let Some(slot) = self.free_slots.pop() {
            return Some(slot);
        }
        let slot = self.next_slot;
        // Any number of them may be free later, which must not need memory.
        let all = slot as usize + 1 - self.free_slots.len();
        if slot == MAX_SLOTS || fallible::reserve(&mut self.free_slots, all).is_err() {
            return None;
        }
        self.next_slot += 1;
        Some(slot)
    }
}
