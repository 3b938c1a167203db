//! The kernel's heap without frames: what may be refused is, the rest lives on the reserve, which
//! is whole again afterwards.

use crate::base::errno::Errno;
use crate::base::heap::reserve;
use crate::base::kstack::{self, KernelStack};
use crate::base::machine::mm;
use crate::base::room;
use alloc::boxed::Box;
use alloc::vec::Vec;
use mm::addr::{Order, Pfn};

/// Large enough that the heap's own free memory is used up soon, and smaller than a block of the
/// reserve.
type Piece = [u8; 6 << 10];
/// The heap has less free memory than these need.
const MOST_PIECES: usize = 4096;

/// Frames that were taken.
struct Block {
    first: Pfn,
    order: Order,
}

/// Takes every frame, as large blocks as there are.
fn take_all(blocks: &mut Vec<Block>) {
    for order in (0..=10).rev().map(Order) {
        while blocks.len() < blocks.capacity()
            && let Some(first) = mm().alloc_kernel(order)
        {
            blocks.push(Block { first, order });
        }
    }
}

ktest::ktest! {
    /// Without a frame left an allocation that cannot fail takes a block of the reserve; all that
    /// may be refused is.
    fn heap_without_frames(ctx) {
        let mut blocks = Vec::with_capacity(1 << 16);
        let mut pieces: Vec<Box<Piece>> = Vec::with_capacity(MOST_PIECES);
        let before = reserve::taken();
        take_all(&mut blocks);
        mm().drain_pcp();
        take_all(&mut blocks);
        while reserve::taken() == before && pieces.len() < MOST_PIECES {
            pieces.push(Box::new([1; 6 << 10]));
        }
        let used = (reserve::taken() - before, fallible::is_short());
        let refused = (
            fallible::reserve(&mut Vec::<Piece>::new(), 1000),
            fallible::check(),
            room::check(Errno::ENFILE),
            crate::fs::room::check_files(1),
            reserve::refill(),
        );
        for block in blocks {
            mm().free_kernel(block.first, block.order);
        }
        ktest::check_eq!(ctx, used, (1, true));
        let no = Err(fallible::OutOfMemory);
        ktest::check_eq!(ctx, refused, (
            no,
            no,
            Err(Errno::ENFILE),
            Err(Errno::ENOSPC),
            false,
        ));
        ktest::check!(ctx, reserve::refill());
        ktest::check_eq!(ctx, fallible::check(), Ok(()));
        ktest::check!(ctx, pieces.iter().all(|piece| piece[100] == 1));
    }
}

ktest::ktest! {
    /// Where no two free frames lie side by side there is a kernel stack all the same.
    fn a_stack_of_frames_apart(ctx) {
        let (mut blocks, mut single) = (Vec::with_capacity(1 << 16), Vec::with_capacity(64));
        kstack::shrink();
        single.extend((0..64).map_while(|_| mm().alloc_kernel(Order(0))));
        take_all(&mut blocks);
        mm().drain_pcp();
        take_all(&mut blocks);
        let is_freed = |frame: &Pfn| frame.0.is_multiple_of(2);
        for frame in single.iter().filter(|frame| is_freed(frame)) {
            mm().free_kernel(*frame, Order(0));
        }
        let (pair, stack) = (mm().alloc_kernel(Order(1)), KernelStack::new());
        let found = (pair, stack.is_ok());
        drop(stack);
        kstack::shrink();
        for frame in single.iter().filter(|frame| !is_freed(frame)) {
            mm().free_kernel(*frame, Order(0));
        }
        for block in blocks {
            mm().free_kernel(block.first, block.order);
        }
        ktest::check_eq!(ctx, found, (None, true));
    }
}
