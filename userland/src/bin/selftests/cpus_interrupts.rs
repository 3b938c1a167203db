//! How many interrupts a munmap(2) sends to other CPUs: counts, which other work of the machine can
//! only add to. Of some tries the least counts.
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use userland::counters::{Missing, OWN, on_quire};
use userland::harness::{Outcome, Stop, in_child};
use userland::sys::cpus::{allowed, bind};
use userland::sys::mem::{ANON, RW, madvise, mmap, munmap, store_addresses};
use userland::sys::proc::Status;
use userland::{check, check_eq};

userland::tests![
    cpus_munmap_beside_running_threads,
    cpus_munmap_on_one_cpu,
    cpus_munmap_of_one_thread,
];

const LEN: usize = 64 << 20;
const TRIES: usize = 5;

/// Counters, read without a change of memory: the end of a large buffer would send interrupts, too.
struct Counters {
    file: File,
    text: Vec<u8>,
}

impl Counters {
    fn open() -> Result<Self, Stop> {
        if !on_quire() {
            return Err(Stop::Skip("this kernel does not count interrupts".into()));
        }
        let file = File::open(OWN).expect("Quire has its counters");
        let text = vec![0; 1 << 16];
        Ok(Counters { file, text })
    }

    fn get(text: &str, name: &str) -> Result<u64, Stop> {
        let value = |line: &str| line.strip_prefix(name)?.trim().parse().ok();
        let (path, name) = (OWN.to_string(), name.to_string());
        let missing = || Missing { path, name }.into();
        text.lines().find_map(value).ok_or_else(missing)
    }

    /// Interrupts between CPUs, and flushes that one asked another for.
    fn sent(&mut self) -> Result<[u64; 2], Stop> {
        let len = self.file.read_at(&mut self.text, 0);
        let len = len.map_err(|why| Stop::Fail(format!("{OWN}: {why}")))?;
        let text = std::str::from_utf8(&self.text[..len]).expect("counters are text");
        Ok([
            Self::get(text, "cpu_interrupts")?,
            Self::get(text, "cpu_flush_requests")?,
        ])
    }
}

/// Fewest [`Counters::sent`] by the munmap of 64 MiB that `touch` has touched.
fn fewest(advice: i32, touch: impl Fn(usize)) -> Result<[u64; 2], Stop> {
    let mut fewest = [u64::MAX; 2];
    let mut counters = Counters::open()?;
    for _ in 0..TRIES {
        let at = mmap(0, LEN, RW, ANON, -1, 0)?;
        madvise(at, LEN, advice)?;
        touch(at);
        let before = counters.sent()?;
        munmap(at, LEN)?;
        let after = counters.sent()?;
        for (fewest, (after, before)) in fewest.iter_mut().zip(after.iter().zip(before)) {
            *fewest = (*fewest).min(after - before);
        }
    }
    Ok(fewest)
}

/// Threads on several CPUs, in user mode all the time, that touch memory together.
#[derive(Default)]
struct Threads {
    /// What they touch, and how often they were asked to.
    at: AtomicUsize,
    turn: AtomicUsize,
    touched: AtomicUsize,
    over: AtomicBool,
}

impl Threads {
    /// Helper `n` of `all`: touches its part at each turn.
    fn run(&self, cpu: usize, n: usize, all: usize) -> Outcome {
        bind(0, &[cpu])?;
        let mut last = 0;
        while !self.over.load(SeqCst) {
            let turn = self.turn.load(SeqCst);
            if turn != last {
                let at = self.at.load(SeqCst) + n * (LEN / all);
                store_addresses(at, at + LEN / all);
                self.touched.fetch_add(1, SeqCst);
                last = turn;
            }
            std::hint::spin_loop();
        }
        Ok(())
    }

    /// The caller's part of a turn; returns when all have done theirs.
    fn touch(&self, at: usize, all: usize) {
        self.at.store(at, SeqCst);
        self.touched.store(0, SeqCst);
        self.turn.fetch_add(1, SeqCst);
        store_addresses(at, at + LEN / all);
        while self.touched.load(SeqCst) < all - 1 {
            std::hint::spin_loop();
        }
    }
}

/// [`fewest`] for memory that threads on these CPUs have touched, and that run on in user mode.
fn fewest_beside(cpus: &[usize], advice: i32) -> Result<[u64; 2], Stop> {
    bind(0, &cpus[..1])?;
    let (threads, all) = (Threads::default(), cpus.len());
    std::thread::scope(|scope| {
        let helper = |n: usize| {
            let (threads, cpu) = (&threads, cpus[n]);
            scope.spawn(move || threads.run(cpu, n, all))
        };
        let helpers: Vec<_> = (1..all).map(helper).collect();
        let sent = fewest(advice, |at| threads.touch(at, all));
        threads.over.store(true, SeqCst);
        for helper in helpers {
            let end = helper.join();
            end.unwrap_or_else(|_| Err(Stop::Fail("a thread has panicked".into())))?;
        }
        sent
    })
}

/// With folios of 2 MiB, and with single pages.
const SIZES: [i32; 2] = [libc::MADV_HUGEPAGE, libc::MADV_NOHUGEPAGE];

/// One interrupt for each other CPU, and none where hardware tells them.
fn cpus_munmap_beside_running_threads() -> Outcome {
    let cpus = allowed(0)?;
    let cpus = &cpus[..cpus.len().min(4)];
    let most = match cfg!(target_arch = "aarch64") {
        true => 0,
        false => cpus.len() as u64 - 1,
    };
    for advice in SIZES {
        let sent = fewest_beside(cpus, advice)?;
        check!(sent.iter().all(|n| *n <= most), "{advice}: {sent:?}");
    }
    Ok(())
}

/// No interrupt for a space that was on one CPU only, though several threads run in it.
fn cpus_munmap_on_one_cpu() -> Outcome {
    // Skipped here: in the child that would be a failure.
    Counters::open()?;
    let cpu = allowed(0)?[0];
    bind(0, &[cpu])?;
    let child = || {
        for advice in SIZES {
            check_eq!(fewest_beside(&[cpu; 4], advice)?, [0, 0]);
        }
        Ok(0)
    };
    check_eq!(in_child(child)?, Status::Exited(0));
    Ok(())
}

/// No interrupt for the space of one thread, wherever that runs.
fn cpus_munmap_of_one_thread() -> Outcome {
    for advice in SIZES {
        let sent = fewest(advice, |at| store_addresses(at, at + LEN))?;
        check_eq!(sent, [0, 0]);
    }
    Ok(())
}
