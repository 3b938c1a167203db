//! Kernel stacks: 32 KiB each, with an unmapped guard of the same size below, in their own area of
//! the kernel half. A limited number of freed stacks are cached, mapped, for the next threads.

use crate::arch::boot::STACK_AREA;
use crate::base::errno::{Errno, Result};
use crate::base::machine::{kernel_space, mm};
use crate::base::ranks;
use alloc::vec::Vec;
use core::mem::ManuallyDrop;
use locks::Apart;
use mm::addr::{Order, Pfn, VirtAddr, VirtRange};
use mm::arch::Attrs;
use mm::sync::Lock;

const ORDER: Order = Order(3);
/// Bytes of a stack.
pub const SIZE: u64 = ORDER.bytes();
/// A stack and the guard below it.
const STRIDE: u64 = 2 * ORDER.bytes();
/// Stacks kept mapped for the next thread: fork and exit in a loop map nothing. Few, so that the
/// pool is full after any burst and free frames can be compared before and after the next one.
const KEPT: usize = 8;
const MAX_SLOTS: u32 = 1 << 19;

struct StackPool {
    ready: Vec<(u32, Pfn)>,
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
    first: Pfn,
}

impl KernelStack {
    /// A stack with undefined contents. ENOMEM without frames or address space.
    pub fn new() -> Result<Self> {
        let mut pool = POOL.lock();
        if let Some((slot, first)) = pool.ready.pop() {
            return Ok(Self { slot, first });
        }
        let slot = pool.take_slot().ok_or(Errno::ENOMEM)?;
        let Some(first) = mm().alloc_kernel(ORDER) else {
            pool.free_slots.push(slot);
            return Err(Errno::ENOMEM);
        };
        let stack = Self { slot, first };
        let attrs = Attrs::WRITE | Attrs::GLOBAL | Attrs::ACCESSED | Attrs::DIRTY;
        if kernel_space()
            .map(stack.range(), first.start(), attrs)
            .is_err()
        {
            mm().free_kernel(first, ORDER);
            pool.free_slots.push(ManuallyDrop::new(stack).slot);
            return Err(Errno::ENOMEM);
        }
        Ok(stack)
    }

    /// One past the highest address: where the first frame is pushed.
    pub fn top(&self) -> u64 {
        self.range().end.0
    }

    fn range(&self) -> VirtRange {
        let end = VirtAddr(STACK_AREA + (u64::from(self.slot) + 1) * STRIDE);
        VirtRange::new(VirtAddr(end.0 - ORDER.bytes()), end)
    }
}

/// Frees the cached stacks.
pub fn shrink() {
    let mut pool = POOL.lock();
    while let Some((slot, first)) = pool.ready.pop() {
        pool.unmap(ManuallyDrop::new(KernelStack { slot, first }));
    }
}

impl Drop for KernelStack {
    fn drop(&mut self) {
        let mut pool = POOL.lock();
        if pool.ready.len() < KEPT {
            pool.ready.push((self.slot, self.first));
            return;
        }
        let (slot, first) = (self.slot, self.first);
        pool.unmap(ManuallyDrop::new(KernelStack { slot, first }));
    }
}

impl StackPool {
    fn unmap(&mut self, stack: ManuallyDrop<KernelStack>) {
        kernel_space().unmap(stack.range());
        mm().free_kernel(stack.first, ORDER);
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
