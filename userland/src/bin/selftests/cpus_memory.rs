//! Threads on several CPUs that change the mapping of memory which others of them use.
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use userland::check_eq;
use userland::harness::{Outcome, Stop};
use userland::sys::cpus::{allowed, bind};
use userland::sys::fault::{self, Trap};
use userland::sys::mem::{ANON, PAGE, RW, madvise, mmap, munmap};

userland::tests![cpus_two_unmap_one_page];

/// A place where nothing else is mapped.
const PLACE: usize = 0x6100_0000_0000;
const ROUNDS: u64 = 3000;

/// What a thread did wrong, for the test to say.
type Wrong = Option<String>;

/// Two threads map, unmap, wipe and fault the same page: an access succeeds or gives SIGSEGV for
/// its address, and a word is zero or one that a thread has begun to write.
fn cpus_two_unmap_one_page() -> Outcome {
    fault::arm();
    let cpus = allowed(0)?;
    let begun = [const { AtomicU64::new(0) }; 2];
    let play = |me: usize| -> Wrong {
        let _ = bind(0, &[cpus[me * (cpus.len() - 1)]]);
        (1..=ROUNDS).find_map(|round| {
            begun[me].store(round, SeqCst);
            change(round + me as u64);
            let written = fault::store(PLACE, round << 1 | me as u64);
            let read = fault::load(PLACE);
            let known = |word: u64| word >> 1 <= begun[word as usize & 1].load(SeqCst);
            match (written, read) {
                (Err(trap), _) | (_, Err(trap)) if !is_for_the_page(trap) => {
                    Some(format!("round {round}: {trap:x?}"))
                }
                (_, Ok(word)) if !known(word) => Some(format!("round {round} finds {word:#x}")),
                _ => None,
            }
        })
    };
    let wrong = std::thread::scope(|scope| {
        let threads = [0, 1].map(|me| scope.spawn(move || play(me)));
        threads.map(|thread| thread.join())
    });
    let _ = munmap(PLACE, PAGE);
    for one in wrong {
        let one = one.map_err(|_| Stop::Fail("a thread has panicked".into()))?;
        check_eq!(one, None);
    }
    Ok(())
}

/// Changes the page, in one of four ways.
fn change(way: u64) {
    // Each may find the page gone, or mapped by the other thread.
    let _ = match way % 4 {
        0 => munmap(PLACE, PAGE).map(drop),
        1 => madvise(PLACE, PAGE, libc::MADV_DONTNEED).map(drop),
        _ => mmap(PLACE, PAGE, RW, ANON | libc::MAP_FIXED, -1, 0).map(drop),
    };
}

fn is_for_the_page(trap: Trap) -> bool {
    trap.signal == libc::SIGSEGV && trap.addr == PLACE
}
