//! Robust lists: what becomes of the futexes of a thread that ends (kernel's robust-futex-ABI).
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use userland::harness::{Outcome, in_child, need};
use userland::sys::cpus::{allowed, bind};
use userland::sys::mem::{load, shared_page, store, word32};
use userland::sys::proc::{self, Fork, Status, futex};
use userland::sys::{Result, call, time};
use userland::{check_eq, check_err};
userland::tests![
    threads_robust_list,
    threads_robust_list_of_a_killed,
    threads_robust_list_damaged,
    threads_robust_refuses,
];

const OWNER_DIED: u32 = libc::FUTEX_OWNER_DIED;
const WAITERS: u32 = libc::FUTEX_WAITERS;

/// A robust list in shared memory, as get_robust_list(2) and the kernel's robust-futex-ABI describe
/// it: the head (first entry, offset of the futex word from its entry, pending entry), then the
/// entries.
#[derive(Clone, Copy)]
struct Robust(usize);

/// Where an entry's word is, from the entry.
const OFFSET: usize = 8;

impl Robust {
    /// An empty list, which ends where it begins.
    fn new() -> Result<Robust> {
        let at = shared_page()?;
        store(at, at as u64);
        store(at + 8, OFFSET as u64);
        store(at + 16, 0);
        Ok(Robust(at))
    }
    fn entry(self, n: usize) -> usize {
        self.0 + 128 + n * 64
    }
    fn word(self, n: usize) -> &'static AtomicU32 {
        word32(self.entry(n) + OFFSET)
    }
    /// Puts the first `n` entries on the list.
    fn link(self, n: usize) {
        let mut last = self.0;
        for entry in (0..n).map(|n| self.entry(n)) {
            store(last, entry as u64);
            last = entry;
        }
        store(last, self.0 as u64);
    }
    /// The thread that calls it has this list.
    fn set(self) -> Result<()> {
        call(libc::SYS_set_robust_list, [self.0, 24, 0, 0, 0, 0]).map(drop)
    }
}

/// The words of a thread that ends: its own say so and wake a waiter, others stay as they are.
fn threads_robust_list() -> Outcome {
    let list = Robust::new()?;
    let end = in_child(|| {
        need(list.set(), "robust list")?;
        let tid = proc::gettid() as u32;
        list.link(3);
        list.word(0).store(tid, SeqCst);
        list.word(1).store(tid | WAITERS, SeqCst);
        // Not its own.
        list.word(2).store(1, SeqCst);
        // Taken, and not on the list yet.
        list.word(3).store(tid, SeqCst);
        store(list.0 + 16, list.entry(3) as u64);
        Ok(0)
    })?;
    check_eq!(end, Status::Exited(0));
    let words: Vec<u32> = (0..4).map(|n| list.word(n).load(SeqCst)).collect();
    check_eq!(words, [OWNER_DIED, OWNER_DIED | WAITERS, 1, OWNER_DIED]);
    Ok(())
}

/// The owner is killed on its CPU while another process waits on its own for the word.
fn threads_robust_list_of_a_killed() -> Outcome {
    let list = Robust::new()?;
    let word = list.word(0);
    let cpus = allowed(0)?;
    let Fork::Parent(owner) = proc::fork()? else {
        let _ = bind(0, &[cpus[cpus.len() - 1]]);
        let set = list.set();
        list.link(1);
        word.store(proc::gettid() as u32 | WAITERS, SeqCst);
        // It computes until it is killed.
        loop {
            store(list.entry(9), u64::from(set.is_ok()));
        }
    };
    while word.load(SeqCst) == 0 {
        proc::sched_yield();
    }
    let owned = word.load(SeqCst);
    check_eq!(owned, owner as u32 | WAITERS);
    let Fork::Parent(waiter) = proc::fork()? else {
        let _ = bind(0, &[cpus[0]]);
        while word.load(SeqCst) == owned {
            let _ = futex(word, libc::FUTEX_WAIT, [owned as usize, 0, 0, 0]);
        }
        proc::exit_now(i32::from(word.load(SeqCst) == OWNER_DIED | WAITERS))
    };
    // It sleeps by now, most of the time; else it sees the new word.
    let _ = time::sleep(20_000_000);
    proc::kill(owner, libc::SIGKILL)?;
    check_eq!(proc::wait_for(owner)?, Status::Killed(libc::SIGKILL));
    check_eq!(proc::wait_for(waiter)?, Status::Exited(1));
    Ok(())
}

/// Lists that lead nowhere, or round in a circle, end with the thread all the same.
fn threads_robust_list_damaged() -> Outcome {
    let list = Robust::new()?;
    let circle = list.entry(0) as u64;
    for next in [8, 0, u64::MAX, 0xffff_8000_0000_0000, circle] {
        let end = in_child(|| {
            need(list.set(), "robust list")?;
            list.link(1);
            list.word(0).store(proc::gettid() as u32, SeqCst);
            store(list.entry(0), next);
            Ok(0)
        })?;
        check_eq!(end, Status::Exited(0));
        check_eq!(list.word(0).load(SeqCst), OWNER_DIED);
    }
    Ok(())
}

fn threads_robust_refuses() -> Outcome {
    let list = Robust::new()?;
    need(list.set(), "robust list")?;
    check_err!(
        call(libc::SYS_set_robust_list, [list.0, 23, 0, 0, 0, 0]),
        EINVAL
    );
    let answer = shared_page()?;
    let get = |pid: usize, head: usize, len: usize| {
        call(libc::SYS_get_robust_list, [pid, head, len, 0, 0, 0])
    };
    get(0, answer, answer + 8)?;
    check_eq!([load(answer), load(answer + 8)], [list.0 as u64, 24]);
    store(answer, 0);
    get(proc::gettid() as usize, answer, answer + 8)?;
    check_eq!(load(answer), list.0 as u64);
    check_err!(get(0x3f_fff0, answer, answer + 8), ESRCH);
    check_err!(get(0, 8, answer + 8), EFAULT);
    check_err!(get(0, answer, 8), EFAULT);
    // A child begins without a list, but for the one that a C library's fork gives it.
    let pid = proc::clone_raw([libc::SIGCHLD as usize, 0, 0, 0, 0, 0]);
    if pid == 0 {
        let got = get(0, answer, answer + 8);
        proc::exit_now(i32::from(got.is_ok() && load(answer) == 0))
    }
    check_eq!(proc::wait_for(pid as i32)?, Status::Exited(1));
    Ok(())
}
