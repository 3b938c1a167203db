//! The shapes of the literature (LLFree, USENIX ATC 2023): what each thread does, and how it is
//! timed.

use crate::subjects::Subject;
use mm::addr::Order;
use mm::frame::Kind;
use std::sync::Barrier;
use std::time::Instant;

/// What the threads do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Allocate all, free all, in the order of allocation.
    Bulk,
    /// Free and reallocate one.
    Repeat,
    /// Fill; then, round by round, free a random tenth and reallocate as much.
    Rand,
}

/// A run.
#[derive(Clone, Copy)]
pub struct Run {
    pub shape: Shape,
    pub order: Order,
    pub threads: usize,
    /// Blocks that each thread fills its share with.
    pub blocks: usize,
    pub rounds: usize,
}

/// xorshift64* (Vigna 2016): the same numbers for all.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }
    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        ((high * n as u64) >> 32) as usize
    }
    /// Brings a random choice of `n` to the end, in random order.
    pub fn choose<T>(&mut self, of: &mut [T], n: usize) {
        for i in 0..n {
            let last = of.len() - 1 - i;
            of.swap(self.below(last + 1), last);
        }
    }
}

/// Times of an operation by pieces of [`PIECE`]: the median of the pieces is what an undisturbed
/// piece takes, whatever else runs on the machine.
#[derive(Default)]
struct Clock(Vec<f64>);

const PIECE: usize = 512;

impl Clock {
    fn time(&mut self, n: usize, f: impl FnOnce()) {
        let start = Instant::now();
        f();
        self.0.push(start.elapsed().as_nanos() as f64 / n as f64);
    }
    fn median(mut self) -> f64 {
        self.0.sort_by(f64::total_cmp);
        self.0.get(self.0.len() / 2).copied().unwrap_or(0.0)
    }
}

/// What came out of a run.
pub struct Outcome {
    /// ns for a pair of one allocation and one free, of the slowest thread.
    pub ns: f64,
    /// All blocks that were held before the end, by all threads.
    pub held: Vec<u32>,
}

/// Runs a shape on all threads at once; everything is free at the end.
pub fn run<S: Subject>(subject: &S, run: Run) -> Outcome {
    let barrier = &Barrier::new(run.threads);
    let results: Vec<Outcome> = std::thread::scope(|scope| {
        let start = |thread| scope.spawn(move || one_thread(subject, run, thread, barrier));
        let threads: Vec<_> = (0..run.threads).map(start).collect();
        let join = threads.into_iter().map(|t| t.join());
        join.map(|r| r.expect("a thread that ends")).collect()
    });
    Outcome {
        ns: results.iter().map(|r| r.ns).fold(0.0, f64::max),
        held: results.into_iter().flat_map(|r| r.held).collect(),
    }
}

fn one_thread<S: Subject>(subject: &S, run: Run, thread: usize, barrier: &Barrier) -> Outcome {
    let Run { order, shape, .. } = run;
    let (mut allocs, mut frees) = (Clock::default(), Clock::default());
    let alloc = |held: &mut Vec<u32>, n: usize| {
        for _ in 0..n {
            let frame = subject.alloc(thread, order, Kind::Anon);
            held.push(frame.expect("a block for everybody"));
        }
    };
    let free = |held: &[u32]| {
        for frame in held {
            subject.free(thread, *frame, order, Kind::Anon);
        }
    };
    let mut take = |held: &mut Vec<u32>, n: usize| {
        for done in (0..n).step_by(PIECE) {
            let piece = PIECE.min(n - done);
            allocs.time(piece, || alloc(held, piece));
        }
    };
    let mut held = Vec::with_capacity(run.blocks);
    let mut rng = Rng::new(thread as u64 + 1);
    barrier.wait();
    match shape {
        Shape::Bulk => {
            for _ in 0..run.rounds {
                take(&mut held, run.blocks);
                barrier.wait();
                for piece in held.chunks(PIECE) {
                    frees.time(piece.len(), || free(piece));
                }
                held.clear();
                barrier.wait();
            }
            alloc(&mut held, run.blocks);
        }
        Shape::Repeat => {
            alloc(&mut held, 1);
            for _ in 0..run.rounds {
                frees.time(PIECE, || {
                    for _ in 0..PIECE {
                        free(&held);
                        held.clear();
                        alloc(&mut held, 1);
                    }
                });
            }
        }
        Shape::Rand => {
            alloc(&mut held, run.blocks);
            let part = (run.blocks / 10).max(1);
            for _ in 0..run.rounds {
                rng.choose(&mut held, part);
                let victims = held.split_off(run.blocks - part);
                for piece in victims.chunks(PIECE) {
                    frees.time(piece.len(), || free(piece));
                }
                take(&mut held, part);
            }
        }
    }
    barrier.wait();
    free(&held);
    let ns = allocs.median() + frees.median();
    Outcome { ns, held }
}
