//! Several threads or processes, each on a CPU of its own, that begin a piece of work together.
//!
//! They wait for the beginning awake, and for all else asleep: where QEMU counts instructions, the
//! clock advances by those of all CPUs, and between the beginning and the end none waits awake.
use crate::meter::{Meter, Sample};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use userland::measuring::ends_well;
use userland::sys::cpus::bind;
use userland::sys::mem::{PAGE, RW, mmap, munmap, word32};
use userland::sys::proc::{self, futex};
use userland::sys::{Result, file};

/// Bytes between two words, which are on lines of their own.
const LINE: usize = 256;

/// The words by which they agree, in memory that processes share.
pub struct Crew {
    at: usize,
    /// The helpers' number: beside the caller.
    helpers: u32,
    /// FUTEX_PRIVATE_FLAG, or 0.
    flag: i32,
}

impl Crew {
    /// A crew of the caller and so many threads of its process.
    pub fn of_threads(helpers: usize) -> Result<Crew> {
        Crew::new(helpers, libc::FUTEX_PRIVATE_FLAG)
    }
    /// A crew of the caller and so many children.
    pub fn of_processes(helpers: usize) -> Result<Crew> {
        Crew::new(helpers, 0)
    }

    fn new(helpers: usize, flag: i32) -> Result<Crew> {
        let at = mmap(0, PAGE, RW, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1, 0)?;
        Ok(Crew {
            at,
            helpers: helpers as u32,
            flag,
        })
    }

    fn word(&self, n: usize) -> &'static AtomicU32 {
        word32(self.at + n * LINE)
    }
    /// How many helpers are there.
    fn ready(&self) -> &'static AtomicU32 {
        self.word(0)
    }
    /// Whether the work has begun.
    fn begun(&self) -> &'static AtomicU32 {
        self.word(1)
    }
    /// How many helpers are done.
    fn done(&self) -> &'static AtomicU32 {
        self.word(2)
    }
    /// Whether the helpers may end.
    fn over(&self) -> &'static AtomicU32 {
        self.word(3)
    }

    /// A helper's part, on this CPU.
    pub fn help(&self, cpu: usize, work: impl FnOnce()) -> Result<()> {
        let bound = bind(0, &[cpu]);
        self.ready().fetch_add(1, SeqCst);
        while self.begun().load(SeqCst) == 0 {
            std::hint::spin_loop();
        }
        work();
        if self.done().fetch_add(1, SeqCst) + 1 == self.helpers {
            self.wake(self.done())?;
        }
        self.rest()?;
        bound
    }

    /// Waits until all helpers wait.
    pub fn assemble(&self) {
        while self.ready().load(SeqCst) < self.helpers {
            std::thread::yield_now();
        }
    }

    /// Begins, does the caller's part, and waits for the helpers'.
    pub fn work(&self, own: impl FnOnce()) -> Result<()> {
        self.begun().store(1, SeqCst);
        own();
        self.sleep(self.done(), self.helpers)
    }

    /// Lets the helpers end.
    pub fn dismiss(&self) -> Result<()> {
        self.over().store(1, SeqCst);
        self.wake(self.over())
    }

    /// Sleeps until the helpers may end.
    pub fn rest(&self) -> Result<()> {
        self.sleep(self.over(), 1)
    }

    /// Sleeps until the word has the value.
    fn sleep(&self, word: &AtomicU32, value: u32) -> Result<()> {
        loop {
            let now = word.load(SeqCst);
            if now >= value {
                return Ok(());
            }
            match futex(word, libc::FUTEX_WAIT | self.flag, [now as usize, 0, 0, 0]) {
                Err(error) if ![libc::EAGAIN, libc::EINTR].contains(&error.0) => return Err(error),
                _ => {}
            }
        }
    }

    fn wake(&self, word: &AtomicU32) -> Result<()> {
        let all = [i32::MAX as usize, 0, 0, 0];
        futex(word, libc::FUTEX_WAKE | self.flag, all).map(drop)
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        // It was mapped.
        let _ = munmap(self.at, PAGE);
    }
}

/// Takes a sample in a child of this process, which has its CPUs and its threads to itself.
pub fn in_child(
    meter: &mut Meter,
    pages: usize,
    take: impl FnOnce(&mut Meter) -> Result<Sample>,
) -> Result<Sample> {
    let (hears, tells) = file::pipe(0)?;
    let pid = proc::child(|| {
        meter.settle()?;
        take(meter)?.tell(tells)
    })?;
    file::close(tells)?;
    let sample = meter.hear(hears, pages);
    file::close(hears)?;
    ends_well(pid)?;
    sample
}
