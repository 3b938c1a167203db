//! The tree of VMAs with 1, 1,000 and 60,000 of them, on the host:
//! `cargo bench -p mm --bench vmas`. Nanoseconds per operation, the best of several rounds.

use arch_sim::Sim;
use mm::addr::{PAGE_SIZE, VirtAddr, VirtRange};
use mm::vma::{Backing, Prot, Vma, VmaFlags, VmaTree};
use std::hint::black_box;
use std::time::Instant;

type Tree = VmaTree<Sim<arch_x86_64::pte::Format>>;

/// Operations in one round.
const ROUND: u64 = 10_000;

fn range(page: u64) -> VirtRange {
    VirtRange::new(VirtAddr(page * PAGE_SIZE), VirtAddr((page + 1) * PAGE_SIZE))
}

fn put(tree: &mut Tree, page: u64) {
    let flags = VmaFlags::empty();
    tree.reserve(1).expect("room");
    tree.insert(Vma::new(range(page), Prot::READ, flags, Backing::Anon));
}

/// One VMA of one page at every third page from 16 on.
fn tree(count: u64) -> Tree {
    let mut tree = Tree::default();
    (0..count).for_each(|n| put(&mut tree, 16 + 3 * n));
    tree
}

/// A VMA far from the one before.
fn far(n: u64, count: u64) -> u64 {
    16 + 3 * (n * 7919 % count)
}

fn best(mut act: impl FnMut(u64)) -> u64 {
    let round = |_| {
        let start = Instant::now();
        (0..ROUND).for_each(&mut act);
        start.elapsed().as_nanos() as u64 / ROUND
    };
    (0..7).map(round).min().unwrap_or(0)
}

fn main() {
    println!("VMAs    lookup far  lookup again  free range  add and take");
    for count in [1, 1_000, 60_000] {
        let mut tree = tree(count);
        let far_off = best(|n| {
            black_box(tree.find(range(far(n, count)).start));
        });
        let again = best(|_| {
            black_box(tree.find(range(far(3, count)).start));
        });
        let top = VirtAddr((16 + 3 * count) * PAGE_SIZE);
        // The only free range of its size is the lowest one.
        let gap = best(|_| {
            black_box(tree.highest_gap(16 * PAGE_SIZE, VirtAddr(0), top));
        });
        let change = best(|n| {
            let page = far(n, count) + 1;
            tree.reserve_take(range(page), 1).expect("room");
            // The next page stays free: nothing is joined but at its start.
            put(&mut tree, page);
            black_box(tree.take(range(page)).expect("memory"));
        });
        println!("{count:<7} {far_off:>7} ns  {again:>9} ns  {gap:>7} ns  {change:>9} ns");
        tree.validate();
        assert_eq!(tree.len() as u64, count);
    }
}
