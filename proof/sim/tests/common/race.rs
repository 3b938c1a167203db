//! Races that happen in each run.

use arch_sim::{At, Process, World};
use locks::Contention;
use mm::addr::{PAGE_SIZE, VirtAddr};
use mm::arch::PteFormat;
use mm::fault::Resolution;
use mm::sync::rank;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// One race at a time, for who holds this: the waits that tell when to begin are counted for the
/// whole program.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    // A mutant's race ends by a panic.
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Unmaps an area, and lets CPU 1 write right at the flush, or as soon as the lock lets it.
pub fn write_at_the_flush<F: PteFormat>(
    world: &World<F>,
    process: &Arc<Process<F>>,
    at: VirtAddr,
    (first, pages): (VirtAddr, u64),
) {
    let (w, p) = (world.clone(), process.clone());
    let (begin, begun) = channel();
    // With the space's lock.
    world.sim.meanwhile(At::Flush, (1, 1), move || {
        let waits = || Contention::of(rank::SPACE).waits;
        let before = waits();
        let there = std::thread::spawn(move || {
            w.sim.run_on(1);
            w.store(1, &p, at, 5).unwrap();
        });
        until("the writer", || there.is_finished() || waits() > before);
        // A wait that ends at once is not the one for the lock.
        let soon = Instant::now() + Duration::from_millis(20);
        while !there.is_finished() && Instant::now() < soon {
            std::thread::yield_now();
        }
        begin.send(there).expect("who unmaps is there");
    });
    process.unmap(first, pages * PAGE_SIZE).unwrap();
    let there = begun.try_recv().expect("nothing was flushed");
    if let Err(why) = there.join() {
        std::panic::resume_unwind(why);
    }
}

/// Waits for what another thread does.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let (mut last, mut waited) = (Instant::now(), Duration::ZERO);
    while !is_so() {
        // The computer may have been stopped meanwhile.
        waited += last.elapsed().min(Duration::from_secs(1));
        last = Instant::now();
        assert!(waited < Duration::from_secs(120), "{what} does not come");
        std::thread::yield_now();
    }
}

/// Reads a byte of a table that CPU 1 empties meanwhile: the fault begins when the first of `pages`
/// from `first` on are to be dropped, and waits for the table's lock until all are.
pub fn read_while_emptied<F: PteFormat>(
    world: &World<F>,
    process: &Arc<Process<F>>,
    at: VirtAddr,
    (first, pages): (VirtAddr, u64),
) -> Result<u8, Resolution> {
    let waits = || Contention::of(rank::NODE).waits;
    let before = waits();
    let (begin, begun) = channel();
    let (w, p) = (world.clone(), process.clone());
    let there = std::thread::spawn(move || {
        w.sim.run_on(1);
        // With the space's lock and the table's.
        w.sim.meanwhile(At::Load, (2, 1), move || {
            begin.send(()).expect("the reader is there");
            until("the reader", || waits() > before);
        });
        p.dont_need(first, pages * PAGE_SIZE).unwrap();
        assert!(!w.sim.forget(), "no entry was read");
    });
    begun.recv().expect("pages are dropped");
    let value = world.load(0, process, at);
    there.join().expect("the other CPU has failed");
    value
}
