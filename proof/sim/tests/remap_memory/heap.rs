//! The heap of this test: one allocation fails, or all from one on, if the memory manager asks for
//! it.
// A global allocator is unsafe code.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr::null_mut;

/// The host's, that fails when it is told to.
struct Heap;

#[global_allocator]
static HEAP: Heap = Heap;

std::thread_local! {
    /// How many of this thread's allocations succeed before it fails.
    static LEFT: Cell<Option<u64>> = const { Cell::new(None) };
    /// Whether all after it fail, too.
    static ON: Cell<bool> = const { Cell::new(false) };
    static FAILED: Cell<u64> = const { Cell::new(0) };
}

/// Runs `f` while allocation `n` of it fails, and all after it with `on`; returns how many failed,
/// too.
pub fn failing<T>(n: u64, on: bool, f: impl FnOnce() -> T) -> (T, u64) {
    FAILED.set(0);
    LEFT.set(Some(n));
    ON.set(on);
    let out = f();
    LEFT.set(None);
    (out, FAILED.get())
}

/// Whether this allocation fails.
fn fails() -> bool {
    let Some(left) = LEFT.get() else {
        return false;
    };
    // A check that fails must be able to say so.
    if arch_sim::inside() || std::thread::panicking() {
        return false;
    }
    if left > 0 {
        LEFT.set(Some(left - 1));
        return false;
    }
    FAILED.set(FAILED.get() + 1);
    LEFT.set(ON.get().then_some(0));
    true
}

// SAFETY: all is the system's allocator, or null, which means that there is no memory.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if fails() {
            return null_mut();
        }
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise; it came from there.
        unsafe { System.dealloc(at, layout) }
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if fails() {
            return null_mut();
        }
        // SAFETY: the caller's promise; it came from there.
        unsafe { System.realloc(at, layout, new_size) }
    }
}
