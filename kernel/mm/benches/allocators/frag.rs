//! How much of the free memory is left in large blocks, after half of the memory was allocated,
//! freed and reallocated at random.

use crate::shapes::Rng;
use crate::subjects::Subject;
use mm::addr::Order;
use mm::frame::Kind;

/// Part of the memory in 1/16, what it is taken for, and in which blocks.
type Part = (u64, Kind, Order);

/// Mixes that fill half of the memory.
pub const MIXES: [(&str, &[Part]); 5] = [
    ("order 0", &[(8, Kind::Anon, Order(0))]),
    ("order 4", &[(8, Kind::Anon, Order(4))]),
    ("order 9", &[(8, Kind::Anon, Order(9))]),
    (
        "orders 0, 4, 9 alike",
        &[
            (3, Kind::Anon, Order(0)),
            (3, Kind::Anon, Order(4)),
            (2, Kind::Anon, Order(9)),
        ],
    ),
    (
        "order 0, 1/8 unmovable",
        &[(7, Kind::Anon, Order(0)), (1, Kind::Table, Order(0))],
    ),
];
const ROUNDS: usize = 100;

/// Percent of the free memory in blocks of at least 64 KiB and 2 MiB.
#[derive(Clone, Copy)]
pub struct Free {
    pub large: u64,
    pub huge: u64,
}

/// What is free at half load, and what is free when all that is movable went.
pub fn run<S: Subject>(frames: u64, mix: &[Part]) -> (Free, Free) {
    let subject = S::new(frames, 1);
    let take = |what, order| {
        let frame = subject.alloc(0, order, what);
        (frame.expect("half of the memory"), order, what)
    };
    let mut held = Vec::new();
    let count = |part: &Part| (frames / 16 * part.0) >> part.2.0;
    let mut left: Vec<u64> = mix.iter().map(count).collect();
    let mut rng = Rng::new(7);
    // In random order, as programs and the kernel take turns.
    while left.iter().sum::<u64>() > 0 {
        let mut at = rng.below(left.iter().sum::<u64>() as usize) as u64;
        let part = left.iter().position(|n| {
            let here = at < *n;
            at = at.saturating_sub(*n);
            here
        });
        let part = part.expect("below the sum");
        left[part] -= 1;
        held.push(take(mix[part].1, mix[part].2));
    }
    for _ in 0..ROUNDS {
        let part = held.len() / 10;
        rng.choose(&mut held, part);
        let victims = held.split_off(held.len() - part);
        for (frame, order, what) in &victims {
            subject.free(0, *frame, *order, *what);
        }
        held.extend(victims.iter().map(|(_, order, what)| take(*what, *order)));
    }
    let at_half = measure(&subject, free_frames(frames, &held));
    held.retain(|(frame, order, what)| {
        let stays = *what == Kind::Table;
        if !stays {
            subject.free(0, *frame, *order, *what);
        }
        stays
    });
    let without = measure(&subject, free_frames(frames, &held));
    for (frame, order, what) in &held {
        subject.free(0, *frame, *order, *what);
    }
    assert_eq!(subject.check(), frames, "frames were lost");
    (at_half, without)
}

fn free_frames(frames: u64, held: &[(u32, Order, Kind)]) -> u64 {
    frames - held.iter().map(|h| h.1.pages()).sum::<u64>()
}

/// Takes all large blocks there are, and gives them back.
fn measure<S: Subject>(subject: &S, free: u64) -> Free {
    let percent = |order: Order| {
        let blocks: Vec<u32> =
            core::iter::from_fn(|| subject.alloc(0, order, Kind::Anon)).collect();
        blocks
            .iter()
            .for_each(|b| subject.free(0, *b, order, Kind::Anon));
        blocks.len() as u64 * order.pages() * 100 / free
    };
    Free {
        large: percent(Order(4)),
        huge: percent(Order(9)),
    }
}
