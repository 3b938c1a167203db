//! Calls of two processes on one file and on memory that maps it: one makes its call again and
//! again, the other one makes another call when a part of that is done. What one does in a pause of
//! the other may neither break a promise nor keep memory.
//!
//! A file has its seals, its length, and what stands in its pages: bytes that somebody wrote, or
//! zeros after a hole was made. Once writes are sealed nothing changes any more. After each pair
//! all invariants are checked.
use super::Outcome;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use userland::invariants;
use userland::sys::fault;
use userland::sys::file::{close, fallocate, fcntl, ftruncate, memfd, pread, pwrite};
use userland::sys::mem::{
    self, ANON, MADV_COLLAPSE, PAGE, RW, madvise, mlock, mmap, mprotect, mremap, munmap,
};
use userland::sys::proc::{self, Fork, Status};
use userland::sys::{Errno, Result, time};

/// Length of the file.
const LEN: usize = 512 << 10;
/// What is written: this, and the number of the turn.
const BYTE: u8 = 0x80;
/// Places in the first call at which the second begins, in the shortest form.
const PLACES: u64 = 5;
const HOLE: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
const SEALS: i32 = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_WRITE;

/// The file of a pair, as one of its processes sees it.
struct File {
    fd: i32,
    /// Memory that the processes share: where they begin, and what was in the file when it was
    /// sealed.
    shared: usize,
    /// The number of the call.
    turn: u8,
}

impl File {
    fn byte(&self) -> u8 {
        BYTE | (self.turn % BYTE)
    }
    /// Counts those that have come.
    fn gate(&self) -> &'static AtomicU32 {
        mem::word32(self.shared)
    }
    /// A hash of what was sealed, or 0.
    fn sealed(&self) -> &'static AtomicU32 {
        mem::word32(self.shared + 64)
    }
    /// How long the first call has taken, in us.
    fn took(&self) -> &'static AtomicU32 {
        mem::word32(self.shared + 128)
    }
    /// Whether the second call has returned.
    fn is_over(&self) -> &'static AtomicU32 {
        mem::word32(self.shared + 192)
    }
    fn seal(&self) -> Result<()> {
        fcntl(self.fd, libc::F_ADD_SEALS, i64::from(SEALS))?;
        self.sealed().store(Contents::of(self.fd)?.hash(), SeqCst);
        Ok(())
    }
    fn allocate(&self, mode: i32) -> Result<()> {
        fallocate(self.fd, mode, 0, LEN).map(drop)
    }
    /// Maps the file for as long as `f` runs.
    fn mapped(&self, flags: i32, f: impl FnOnce(usize) -> Result<()>) -> Result<()> {
        let at = mmap(0, LEN, RW, flags, self.fd, 0)?;
        let done = f(at);
        // Nothing may be left of what was moved.
        munmap(at, LEN)?;
        done
    }
    /// Writes to each page through a mapping; the file may be shorter now.
    fn touch(&self, at: usize) -> Result<()> {
        for page in (at..at + LEN).step_by(PAGE) {
            let _ = fault::store(page, u64::from(self.byte()));
        }
        Ok(())
    }
}

/// What a process does with the file.
struct Verb {
    name: &'static str,
    /// It comes second, too.
    second: bool,
    act: fn(&File) -> Result<()>,
}

const VERBS: &[Verb] = &[
    Verb {
        name: "truncate",
        second: true,
        act: |file| {
            ftruncate(file.fd, 0)?;
            ftruncate(file.fd, LEN as i64)
        },
    },
    Verb {
        name: "punch",
        second: true,
        act: |file| file.allocate(HOLE),
    },
    Verb {
        name: "allocate",
        second: false,
        act: |file| file.allocate(0),
    },
    Verb {
        name: "write",
        second: true,
        act: |file| pwrite(file.fd, &vec![file.byte(); LEN], 0).map(drop),
    },
    Verb {
        name: "read",
        second: false,
        act: |file| pread(file.fd, &mut vec![0; LEN], 0).map(drop),
    },
    Verb {
        name: "seal",
        second: true,
        act: File::seal,
    },
    Verb {
        name: "touch",
        second: false,
        act: |file| file.mapped(libc::MAP_SHARED, |at| file.touch(at)),
    },
    Verb {
        name: "copy",
        second: false,
        act: |file| file.mapped(libc::MAP_PRIVATE, |at| file.touch(at)),
    },
    Verb {
        name: "fork",
        second: false,
        act: |file| {
            file.mapped(libc::MAP_PRIVATE, |at| {
                file.touch(at)?;
                fork_and_look(at)
            })
        },
    },
    Verb {
        name: "lock",
        second: false,
        act: |file| file.mapped(libc::MAP_SHARED, |at| mlock(at, LEN)),
    },
    Verb {
        name: "protect",
        second: false,
        act: |file| {
            file.mapped(libc::MAP_SHARED, |at| {
                mprotect(at, LEN, libc::PROT_READ)?;
                mprotect(at, LEN, RW)
            })
        },
    },
    Verb {
        name: "remap",
        second: false,
        act: |file| {
            file.mapped(libc::MAP_SHARED, |at| {
                let to = mmap(0, LEN, libc::PROT_NONE, ANON, -1, 0)?;
                let how = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
                let moved = mremap(at, LEN, LEN, how, to);
                munmap(to, LEN)?;
                moved.map(drop)
            })
        },
    },
    Verb {
        name: "collapse",
        second: true,
        act: |file| file.mapped(libc::MAP_SHARED, |at| madvise(at, LEN, MADV_COLLAPSE)),
    },
    Verb {
        name: "remove",
        second: true,
        act: |file| file.mapped(libc::MAP_SHARED, |at| madvise(at, LEN, libc::MADV_REMOVE)),
    },
    Verb {
        name: "exec",
        second: true,
        act: |file| file.mapped(libc::MAP_SHARED, |_| exec()),
    },
];

fn fork_and_look(at: usize) -> Result<()> {
    match proc::fork()? {
        Fork::Child => {
            let all = (at..at + LEN).step_by(PAGE);
            let wrong = all
                .filter_map(|page| fault::load(page).ok())
                .any(|word| !is_sound(word as u8));
            proc::exit_now(i32::from(wrong))
        }
        Fork::Parent(pid) => good(proc::wait_for(pid)?),
    }
}

fn exec() -> Result<()> {
    match proc::fork()? {
        Fork::Child => {
            let _ = proc::exec("/bin/nothing", &["nothing".to_owned()], &[]);
            proc::exit_now(1)
        }
        Fork::Parent(pid) => good(proc::wait_for(pid)?),
    }
}

/// EPROTO, which no call gives, if a child has found something wrong.
fn good(status: Status) -> Result<()> {
    match status {
        Status::Exited(0) => Ok(()),
        _ => Err(Errno(libc::EPROTO)),
    }
}

/// Does a verb; 1 if it gives what no call may give.
fn run(verb: &Verb, file: &File) -> i32 {
    // A seal; memory that is mapped, or short; a length that changes.
    const MAY: [i32; 7] = [
        libc::EPERM,
        libc::EBUSY,
        libc::EACCES,
        libc::ENOMEM,
        libc::EAGAIN,
        libc::EINVAL,
        libc::EFAULT,
    ];
    match (verb.act)(file) {
        Err(Errno(why)) if !MAY.contains(&why) => {
            eprintln!("{} gives {why}", verb.name);
            1
        }
        _ => 0,
    }
}

/// What stands in a file: its length, and the bytes at the beginning of its pages.
struct Contents(Vec<u8>);

impl Contents {
    fn of(fd: i32) -> Result<Contents> {
        let mut bytes = vec![0; LEN];
        let n = pread(fd, &mut bytes, 0)?;
        bytes.truncate(n);
        Ok(Contents(bytes.into_iter().step_by(PAGE).collect()))
    }
    /// FNV-1a, and never 0.
    fn hash(&self) -> u32 {
        let add = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(16_777_619);
        self.0.iter().fold(2_166_136_261, add) | 1
    }
}

/// Whether somebody wrote this, or nobody.
fn is_sound(byte: u8) -> bool {
    byte == 0 || byte & BYTE != 0
}

/// A pair on a file of its own, of which the second begins `delay` us after the first. Returns how
/// long the first took, in us, or what is wrong.
fn pair(first: &Verb, second: &Verb, delay: u64) -> Result<std::result::Result<u64, String>> {
    let file = File {
        fd: memfd(libc::MFD_ALLOW_SEALING)?,
        shared: mem::shared_page()?,
        turn: 0,
    };
    ftruncate(file.fd, LEN as i64)?;
    file.mapped(libc::MAP_SHARED, |at| file.touch(at))?;
    let start = |side: &dyn Fn() -> i32| match proc::fork()? {
        Fork::Child => proc::exit_now(side()),
        Fork::Parent(pid) => Ok::<i32, Errno>(pid),
    };
    let processes = [
        start(&|| file.repeat(first))?,
        start(&|| file.once(second, delay))?,
    ];
    let ended = [proc::wait_for(processes[0])?, proc::wait_for(processes[1])?];
    let (last, sealed) = (Contents::of(file.fd)?, file.sealed().load(SeqCst));
    let took = file.took().load(SeqCst);
    invariants::check()?;
    munmap(file.shared, PAGE)?;
    close(file.fd)?;
    Ok(if ended != [Status::Exited(0); 2] {
        Err(format!("they ended with {ended:?}"))
    } else if !last.0.iter().all(|byte| is_sound(*byte)) {
        Err("a page holds what nobody wrote".to_owned())
    } else if sealed != 0 && sealed != last.hash() {
        Err("what was sealed has changed".to_owned())
    } else {
        Ok(took.into())
    })
}

impl File {
    /// Both have come.
    fn meet(&self) {
        self.gate().fetch_add(1, SeqCst);
        while self.gate().load(SeqCst) < 2 {
            proc::sched_yield();
        }
    }
    /// Does a verb until it was done once after the other one.
    fn repeat(&self, verb: &Verb) -> i32 {
        self.meet();
        let began = time::now();
        for turn in 1.. {
            let last = self.is_over().load(SeqCst) == 1;
            let status = run(verb, &File { turn, ..*self });
            if turn == 1 {
                let passed = (time::now() - began) / 1000;
                self.took().store(passed as u32, SeqCst);
            }
            if last || status != 0 || turn == u8::MAX {
                return status;
            }
        }
        unreachable!("a turn is the last")
    }
    /// Does a verb once, after so many us.
    fn once(&self, verb: &Verb, delay: u64) -> i32 {
        self.meet();
        let began = time::now();
        while (time::now() - began) / 1000 < delay {
            proc::sched_yield();
        }
        let status = run(verb, self);
        self.is_over().store(1, SeqCst);
        status
    }
}

/// `pairs [PLACES]`: each call with each that may come second.
pub fn of_calls(words: &[String]) -> Outcome {
    let places = match words.first().map(|word| word.parse()) {
        None => PLACES,
        Some(Ok(places)) if places > 0 => places,
        Some(_) => return Err("usage: abuse pairs [PLACES]".to_owned()),
    };
    fault::arm();
    let mut pairs = 0;
    for first in VERBS {
        // With many places a turn takes long, and who prints nothing is taken for hung.
        println!("abuse: pairs: after {}", first.name);
        for second in VERBS.iter().filter(|verb| verb.second) {
            let mut took = 0;
            for place in 0..places {
                let delay = took * place / places;
                let done = pair(first, second, delay).map_err(|why| format!("{why:?}"));
                let ran = done.and_then(|done| done).map_err(|why| {
                    let (first, second) = (first.name, second.name);
                    format!("{second} {delay} us after {first}: {why}")
                })?;
                took = took.max(ran);
                pairs += 1;
            }
        }
    }
    Ok(format!("{pairs} pairs of calls"))
}
