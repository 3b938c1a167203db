//! The page allocator against the crate `buddy_system_allocator`, on the host:
//! `cargo bench -p mm --bench allocators`, with 1 GiB:
//! `cargo bench -p mm --bench allocators -- 1024`.
//!
//! Prints ns for a pair of one allocation and one free, and what is left of large blocks. Each run
//! is checked: no two blocks overlap, all is free at the end.

mod frag;
mod shapes;
mod subjects;

use mm::addr::Order;
use mm::frame::Kind;
use shapes::{Run, Shape};
use subjects::{Other, Quire, Subject};

/// The frame table of 128 MiB (1 MiB) stays in a core's caches, so it is the allocators that are
/// timed.
const MIB: u64 = 128;
/// What the threads fill, in 1/16: a part is left, because one thread cannot have what is in
/// another's lists.
const FILL: u64 = 15;
const RUNS: usize = 3;

fn check<S: Subject>(subject: &S, frames: u64, run: Run, mut held: Vec<u32>) {
    held.sort_unstable();
    let pages = 1 << run.order.0;
    let apart = held.windows(2).all(|w| w[1] - w[0] >= pages);
    assert!(apart, "two blocks overlap");
    let aligned = held.iter().all(|f| f.is_multiple_of(pages));
    assert!(aligned, "a block is not aligned");
    assert_eq!(subject.check(), frames, "frames were lost");
}

fn best<S: Subject>(frames: u64, run: Run) -> f64 {
    let subject = S::new(frames, run.threads);
    let mut best = f64::INFINITY;
    for _ in 0..RUNS {
        let outcome = shapes::run(&subject, run);
        check(&subject, frames, run, outcome.held);
        best = best.min(outcome.ns);
    }
    best
}

fn main() {
    // cargo itself adds `--bench`.
    let words = std::env::args()
        .skip(1)
        .find(|word| !word.starts_with("--"));
    let mib = words.map_or(MIB, |word| word.parse().expect("MiB of memory"));
    let frames = mib << 8;
    println!("ns for one allocation and one free, {mib} MiB");
    println!("shape  order threads    quire buddy_system_allocator  ratio");
    let shapes = [
        // Name, shape, part of the memory that is filled in 1/16, rounds.
        ("bulk", Shape::Bulk, FILL, 4),
        ("repeat", Shape::Repeat, FILL, 400),
        ("rand", Shape::Rand, FILL, 20),
        ("frag", Shape::Rand, 8, 20),
    ];
    for (name, shape, fill, rounds) in shapes {
        for order in [0, 4, 9].map(Order) {
            for threads in [1, 2] {
                let run = Run {
                    shape,
                    order,
                    threads,
                    blocks: ((frames / 16 * fill) >> order.0) as usize / threads,
                    rounds: rounds << (order.0 / 3),
                };
                let (ours, theirs) = (best::<Quire>(frames, run), best::<Other>(frames, run));
                let (order, ratio) = (order.0, theirs / ours);
                println!(
                    "{name:6} {order:>5} {threads:>7} {ours:>8.1} {theirs:>22.1} {ratio:>6.1}"
                );
            }
        }
    }
    fragmentation(frames);
}

fn fragmentation(frames: u64) {
    println!();
    println!("frag at 50 % load: percent of the free memory in blocks of at least 64 KiB / 2 MiB,");
    println!("then the same when all that is movable was freed");
    println!(
        "{:24} {:>17} {:>24}",
        "mix", "quire", "buddy_system_allocator"
    );
    for (name, mix) in frag::MIXES {
        let (ours, ours_then) = frag::run::<Quire>(frames, mix);
        let (theirs, theirs_then) = frag::run::<Other>(frames, mix);
        let show = |f: frag::Free| format!("{:>3}/{:<3}", f.large, f.huge);
        println!(
            "{name:24} {:>9} {} {:>16} {}",
            show(ours),
            show(ours_then),
            show(theirs),
            show(theirs_then)
        );
        let movable = mix.iter().all(|part| part.1 == Kind::Anon);
        assert!(
            !movable || ours.huge >= 90,
            "{name}: large blocks were broken"
        );
    }
}
