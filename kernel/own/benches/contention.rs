//! What the schemes cost when many CPUs map, ask for and unmap the same folios: nanoseconds of the
//! host for each round of a thread, in folios one after the other, where all threads meet (as
//! vm-scalability's anon-cow-seq), and at random (as anon-cow-rand).
//!
//! ```text
//! cargo bench -p own                    1 to all CPUs, orders 2, 4 and 9
//! cargo bench -p own -- 8               1 to 8 threads
//! ```

use own::{
    Account, Digits, FirstOwner, Meter, MmId, Owner, Part, PerPage, Total, TwoSlot, Unified,
};
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

#[path = "../tests/common/book.rs"]
mod book;

use book::Sheet;

/// Folios that all threads use.
const FOLIOS: usize = 64;
/// Rounds of a thread.
const ROUNDS: usize = 40_000;
const ORDERS: [u8; 3] = [2, 4, 9];

/// Which folio is next.
#[derive(Clone, Copy)]
enum Walk {
    Seq,
    Rand,
}

fn owner(number: usize) -> Owner {
    let id = u16::try_from(number).ok().and_then(MmId::new);
    Owner::new(id.expect("few threads"))
}

/// One thread's rounds: it maps all of a folio, asks whether that is its own, and unmaps it.
fn rounds(scheme: &impl Account, folios: &[Sheet], who: &Owner, walk: Walk, mut random: u64) {
    let mut meter = Meter::default();
    for round in 0..ROUNDS {
        // Xorshift, by Marsaglia.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let folio = match walk {
            Walk::Seq => round % FOLIOS,
            Walk::Rand => random as usize % FOLIOS,
        };
        let folio = &folios[folio];
        let pages = 1 << own::Book::order(folio).0;
        let part = Part::ptes(0, pages);
        scheme.map(folio, who, part, &mut meter);
        assert!(!scheme.exclusive(folio, who), "the keeper has it, too");
        assert!(!scheme.unmap(folio, who, part, &mut meter));
    }
}

/// Nanoseconds for each round of a thread.
fn measure(scheme: &(impl Account + Sync), order: u8, threads: usize, walk: Walk) -> f64 {
    let folios: Vec<Sheet> = (0..FOLIOS).map(|_| Sheet::new(order)).collect();
    let (keeper, mut meter) = (owner(1), Meter::default());
    for folio in &folios {
        scheme.begin(folio, &keeper, Part::ptes(0, 1 << order), &mut meter);
    }
    let start = Barrier::new(threads);
    let longest = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|n| {
                let (folios, start) = (&folios, &start);
                scope.spawn(move || {
                    start.wait();
                    let begun = Instant::now();
                    rounds(scheme, folios, &owner(n + 2), walk, n as u64 + 1);
                    begun.elapsed()
                })
            })
            .collect();
        let times = threads
            .into_iter()
            .map(|t| t.join().expect("a thread fails"));
        times.max().unwrap_or_default()
    });
    for folio in &folios {
        assert!(scheme.unmap(folio, &keeper, Part::ptes(0, 1 << order), &mut meter));
        assert!(folio.is_zero(), "something is left");
    }
    longest.as_nanos() as f64 / ROUNDS as f64
}

fn row(name: &str, scheme: &(impl Account + Sync), order: u8, counts: &[usize]) {
    let walks = [Walk::Seq, Walk::Rand];
    let cells = walks.map(|walk| {
        let cell = |&threads: &usize| format!("{:9.1}", measure(scheme, order, threads, walk));
        counts.iter().map(cell).collect::<String>()
    });
    println!("{name:<18}{order:>5}{}   {}", cells[0], cells[1]);
}

fn main() {
    // cargo's own `--bench` is no number.
    let wanted = std::env::args().skip(1).find_map(|word| word.parse().ok());
    let most = wanted.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
    let counts: Vec<usize> = (1..=most.clamp(1, 1024)).collect();
    let heads: String = counts.iter().map(|n| format!("{n:>9}")).collect();
    println!("ns for each round of a thread; threads: one after the other, then at random");
    println!("{:<18}{:>5}{heads}   {heads}", "scheme", "order");
    for order in ORDERS {
        row("unified", &Unified, order, &counts);
        row("owner", &FirstOwner, order, &counts);
        row("two-slot", &TwoSlot, order, &counts);
        row("total", &Total, order, &counts);
        row("per-page", &PerPage, order, &counts);
        row("digits", &Digits::default(), order, &counts);
        let shared = Digits {
            exclusive: false,
            ..Digits::default()
        };
        row("digits, shared", &shared, order, &counts);
    }
}
