//! The operations, in the order in which two of them are done: what takes memory away is last, so
//! that the other one still finds its state.
use crate::site::{Site, VALUE};
use userland::sys::mem::{self, PAGE, RW};
use userland::sys::proc::{self, clone_raw};
use userland::sys::{Errno, Result, call, call_bare};

/// What an actor does once; each concerns one page at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Op {
    /// A read of a page that is not there.
    Read,
    /// A write to a page that is not there.
    Write,
    /// A write to a page that a child has, too.
    Cow,
    /// A write to a page that a child had, which ended.
    Reuse,
    /// FUTEX_WAKE of a word that none waits for.
    Futex,
    /// The least that a system call does.
    Getpid,
    /// MADV_POPULATE_WRITE of a page that is not there.
    Populate,
    /// mprotect of a page, to read only.
    Protect,
    /// mmap of a page, anywhere.
    Mmap,
    /// brk, a page upwards.
    Brk,
    /// fork.
    Fork,
    /// MADV_DONTNEED of a page.
    Dontneed,
    /// mremap of a page to an address where nothing is.
    Mremap,
    /// munmap of a page.
    Munmap,
    /// The end of a thread, or of a process where each has a space of its own.
    Exit,
}

/// What must be at an operation's page before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// Nothing.
    Absent,
    /// A page that a child has, too.
    Shared,
    /// A page that is mapped read-only since a fork, and nobody else's.
    Alone,
    /// A page.
    Present,
}

impl Op {
    /// All, with their names in arguments and results.
    pub const ALL: [(Op, &str); 15] = [
        (Op::Read, "read"),
        (Op::Write, "write"),
        (Op::Cow, "cow"),
        (Op::Reuse, "reuse"),
        (Op::Futex, "futex"),
        (Op::Getpid, "getpid"),
        (Op::Populate, "populate"),
        (Op::Protect, "mprotect"),
        (Op::Mmap, "mmap"),
        (Op::Brk, "brk"),
        (Op::Fork, "fork"),
        (Op::Dontneed, "dontneed"),
        (Op::Mremap, "mremap"),
        (Op::Munmap, "munmap"),
        (Op::Exit, "exit"),
    ];

    /// As in arguments and results.
    pub const fn name(self) -> &'static str {
        Op::ALL[self as usize].1
    }

    /// What must be at its page before; none when it has no page.
    pub const fn before(self) -> Option<Before> {
        match self {
            Op::Read | Op::Write | Op::Populate => Some(Before::Absent),
            Op::Cow => Some(Before::Shared),
            Op::Reuse => Some(Before::Alone),
            Op::Futex | Op::Protect | Op::Dontneed | Op::Mremap | Op::Munmap => {
                Some(Before::Present)
            }
            Op::Getpid | Op::Mmap | Op::Brk | Op::Fork | Op::Exit => None,
        }
    }

    /// Whether it is a fault, which a page that is there does not take.
    pub const fn is_fault(self) -> bool {
        matches!(self, Op::Read | Op::Write | Op::Cow | Op::Reuse)
    }

    /// What is looked up before, so that it is not between the marks: the break, or what the page
    /// that moves has in its second word.
    pub fn argument(self, site: &Site) -> usize {
        match self {
            Op::Brk => mem::brk(0) + PAGE,
            Op::Mremap => mem::load(site.page + 8) as usize,
            _ => 0,
        }
    }

    /// Does it; returns what the kernel or memory says. Between two marks: it writes no memory but
    /// its stack.
    #[inline(always)]
    pub fn perform(self, site: &Site, argument: usize) -> isize {
        let page = site.page;
        match self {
            Op::Read => mem::load(page) as isize,
            Op::Write | Op::Cow | Op::Reuse => {
                mem::store(page, !VALUE);
                0
            }
            Op::Futex => {
                let wake = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
                made(libc::SYS_futex, [page, wake as usize, 1])
            }
            Op::Getpid => made(libc::SYS_getpid, []),
            Op::Populate => advise(page, libc::MADV_POPULATE_WRITE),
            Op::Protect => made(libc::SYS_mprotect, [page, PAGE, libc::PROT_READ as usize]),
            Op::Mmap => {
                let (prot, flags) = (RW as usize, mem::ANON as usize);
                made(libc::SYS_mmap, [0, PAGE, prot, flags, usize::MAX])
            }
            Op::Brk => made(libc::SYS_brk, [argument]),
            Op::Fork => clone_raw([libc::SIGCHLD as usize, 0, 0, 0, 0, 0]),
            Op::Dontneed => advise(page, libc::MADV_DONTNEED),
            Op::Mremap => {
                let flags = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as usize;
                made(libc::SYS_mremap, [page, PAGE, PAGE, flags, site.to])
            }
            Op::Munmap => made(libc::SYS_munmap, [page, PAGE]),
            Op::Exit => unreachable!("an actor ends by itself"),
        }
    }

    /// Whether it did what it is for: `said` is what it returned.
    ///
    /// # Errors
    ///
    /// The kernel's error, or EIO when memory is not as it must be then.
    pub fn check(self, site: &Site, argument: usize, said: isize) -> Result<()> {
        if (-4095..0).contains(&said) {
            return Err(Errno(-said as i32));
        }
        let (page, said) = (site.page, said as usize);
        let is_right = match self {
            Op::Read => said == 0,
            // The second word of the page is as it was before.
            Op::Write => [mem::load(page), mem::load(page + 8)] == [!VALUE, 0],
            Op::Cow | Op::Reuse => [mem::load(page), mem::load(page + 8)] == [!VALUE, VALUE],
            Op::Futex => said == 0,
            Op::Getpid => said == proc::getpid() as usize,
            Op::Populate => mem::mincore(page, 1)? == [1],
            Op::Protect => is_read_only(page),
            Op::Mmap => mem::load(said) == 0,
            Op::Brk => said == argument,
            Op::Fork => said > 0,
            Op::Dontneed => mem::mincore(page, 1)?[0] & 1 == 0,
            Op::Mremap => {
                said == site.to && mem::load(said + 8) == argument as u64 && !is_mapped(page)
            }
            Op::Munmap => !is_mapped(page),
            Op::Exit => true,
        };
        is_right.then_some(()).ok_or(Errno(libc::EIO))
    }
}

/// A call with so many arguments.
#[inline(always)]
fn made<const N: usize>(nr: i64, arguments: [usize; N]) -> isize {
    let mut all = [0; 6];
    all[..N].copy_from_slice(&arguments);
    call_bare(nr as usize, all)
}

#[inline(always)]
fn advise(page: usize, advice: i32) -> isize {
    made(libc::SYS_madvise, [page, PAGE, advice as usize])
}

/// Whether anything is mapped at a page.
fn is_mapped(page: usize) -> bool {
    mem::mincore(page, 1).is_ok()
}

/// Whether the kernel itself may not write there: it would store a time.
fn is_read_only(page: usize) -> bool {
    let arguments = [libc::CLOCK_MONOTONIC as usize, page, 0, 0, 0, 0];
    call(libc::SYS_clock_gettime, arguments) == Err(Errno(libc::EFAULT))
}
