//! What pieces of the memory manager cost in instructions: meaningful when the clock counts them
//! (`./run.sh --icount`).

use crate::arch::timer::now;
use crate::base::machine::mm;
use mm::addr::{Order, Pfn};
use mm::arch::{Cpu, Machine};
use mm::frame::zone::Reserve;
use mm::frame::{AllocRequest, Kind};

/// Taking a page, and giving one back: at most so many instructions each.
const BUDGET: u64 = 60;
/// A quarter of what a list holds, so that no zone is needed.
const PAGES: usize = 64;

/// Whether the clock counts instructions: then a quick loop and a slow one, which reads the clock,
/// take the same time again and again.
fn counts_instructions() -> bool {
    fn is_steady(work: fn(u64) -> u64) -> bool {
        let timed = || {
            let start = now();
            (0..10_000).for_each(|n| {
                core::hint::black_box(work(n));
            });
            now() - start
        };
        let first = timed();
        // The clock may tick in steps of 16 ns.
        (0..5).all(|_| timed().abs_diff(first) <= 16)
    }
    is_steady(|n| n) && is_steady(|_| now())
}

ktest::ktest! {
    /// A page from a warm per-CPU list, and back.
    fn allocator_cost(ctx) {
        let (allocator, cpu) = (mm().allocator(), mm().machine().cpu().id());
        let request = AllocRequest { cpu, order: Order(0), kind: Kind::Anon, reserve: Reserve::User };
        let mut pages = [Pfn(0); PAGES];
        let mut costs = [0; 2];
        // The first pass fills the list.
        for _ in 0..2 {
            let start = now();
            for page in &mut pages {
                match allocator.alloc(request) {
                    Some(pfn) => *page = pfn,
                    None => ktest::skip!("no memory"),
                }
            }
            let middle = now();
            for page in pages {
                allocator.free_owned(cpu, page, Order(0), Kind::Anon);
            }
            costs = [middle - start, now() - middle].map(|ns| ns.div_ceil(PAGES as u64));
        }
        let [take, give] = costs;
        if !counts_instructions() {
            ktest::skip!("the clock does not count instructions: boot with --icount");
        }
        ktest::diag!(ctx, "order 0: allocate {take}, free {give} instructions (budget {BUDGET} each)");
        ktest::check!(ctx, take <= BUDGET && give <= BUDGET, "more than {BUDGET}");
    }
}
