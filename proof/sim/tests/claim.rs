//! Accesses beside a verb that has taken VMAs out and pauses: they wait for its end, and see the
//! memory from before it or from after it. Each CPU is a thread of the host.

mod common;

use arch_sim::{Options, Process, Sim, World};
use common::*;
use mm::addr::{PAGE_SIZE, VirtAddr};
use mm::arch::PteFormat;
use mm::fault::Resolution;
use mm::vma::VmaFlags;
use mm::{Advice, MapRequest, Place};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

/// Tables' worth of memory: 64 MiB.
const TABLES: u64 = 32;
const TABLE: u64 = 2 << 20;
const LEN: u64 = TABLES * TABLE;
/// Memory that is moved.
const FROM: VirtAddr = VirtAddr(AT.0 + 2 * LEN);
/// Times that the memory is replaced.
const ROUNDS: u64 = 12;
const CPUS: usize = 4;

/// What is written.
const BYTE: u8 = 7;

/// A page of table `n`.
fn spot(start: VirtAddr, n: u64) -> VirtAddr {
    start + (n % TABLES) * TABLE + (n % 5) * PAGE_SIZE
}

/// [`LEN`] bytes there, which is more than the machine has.
fn sparse<F: PteFormat>(at: VirtAddr) -> MapRequest<Sim<F>> {
    MapRequest {
        flags: VmaFlags::NORESERVE,
        ..anon(Place::Fixed(at), LEN / PAGE_SIZE, RW)
    }
}

/// A process whose threads run on all CPUs, with a page in each table; verbs pause often.
fn scene<F: PteFormat>(test: impl Fn(&World<F>, &Process<F>)) {
    let w = World::<F>::new(Options {
        frames: 4096,
        cpus: CPUS,
        step: 16,
        ..Options::default()
    });
    sizes(&w, &[]);
    let before = w.mm.counts();
    let p = w.process();
    p.share().unwrap();
    p.map(sparse(AT)).unwrap();
    (0..TABLES).for_each(|n| w.store(0, &p, spot(AT, n), BYTE).unwrap());
    test(&w, &p);
    w.check(&[&p], &[]);
    drop(p);
    assert_eq!(before, w.mm.counts());
}

/// Access `n`: by the user, or by the kernel for the user. What it says.
fn access<F: PteFormat>(
    w: &World<F>,
    p: &Process<F>,
    cpu: usize,
    n: u64,
) -> Result<(), Resolution> {
    let at = spot(AT, n * 7 + cpu as u64);
    let all = |bytes| (bytes == 1).then_some(()).ok_or(Resolution::NotMapped);
    match n % 6 {
        0 => w.store(cpu, p, at, BYTE),
        1 => w
            .load(cpu, p, at)
            .map(|byte| assert!([0, BYTE].contains(&byte))),
        2 => all(p.write(at, &[BYTE], false)),
        3 => all(p.read(at, &mut [0], false)),
        4 => p.pin(at).map(drop),
        _ => {
            let populated = p.advise(at, PAGE_SIZE, Advice::PopulateWrite);
            populated.map_err(|_| Resolution::NotMapped)
        }
    }
}

fn memory_is_replaced<F: PteFormat>() {
    scene::<F>(|w, p| {
        let over = AtomicBool::new(false);
        let replace = || {
            for _ in 0..ROUNDS {
                p.map(sparse(AT)).unwrap();
                (0..TABLES).for_each(|n| w.store(0, p, spot(AT, n), BYTE).unwrap());
                p.map(sparse(FROM)).unwrap();
                (0..TABLES).for_each(|n| w.store(0, p, spot(FROM, n), BYTE).unwrap());
                assert_eq!(
                    p.remap(FROM, LEN, LEN, FIXED, AT, &mut Default::default()),
                    Ok(AT)
                );
            }
            over.store(true, SeqCst);
        };
        w.sim.together(CPUS, |cpu| match cpu {
            0 => replace(),
            _ => {
                for n in 0.. {
                    let seen = access(w, p, cpu, n);
                    assert_eq!(seen, Ok(()), "access {n} of CPU {cpu}");
                    if over.load(SeqCst) {
                        break;
                    }
                    w.mm.answer();
                }
            }
        });
    });
}

/// Those that meet the munmap are refused, and only when it has ended.
fn memory_goes_for_good<F: PteFormat>() {
    scene::<F>(|w, p| {
        let accesses = AtomicU64::new(0);
        let unmap = || {
            while accesses.load(SeqCst) < 100 {
                w.mm.answer();
                w.sim.relax();
            }
            p.unmap(AT, LEN).unwrap();
        };
        w.sim.together(CPUS, |cpu| match cpu {
            0 => unmap(),
            _ => {
                let mut n = 0;
                while access(w, p, cpu, n) == Ok(()) {
                    accesses.fetch_add(1, SeqCst);
                    n += 1;
                    w.mm.answer();
                }
                assert_eq!(p.usage().rss.anon, 0, "access {n} was refused too early");
                for n in n..n + 20 {
                    assert_eq!(access(w, p, cpu, n), Err(Resolution::NotMapped));
                }
            }
        });
    });
}

on_both_formats! { memory_is_replaced memory_goes_for_good }
