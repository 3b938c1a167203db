//! Contents of a page, and the threads that may have written them.
//!
//! In [`crate::arena`], the first and the last word are *exact*: only the thread that has the
//! page's slot writes them, and knows what they say. Between them each thread has a *wild* word
//! that it writes at any time, into whatever is mapped there at that moment: all that can be said
//! of it is which thread of which process may have written it, namely this process or one that it
//! was forked from.
use userland::sys::mem::PAGE;
use userland::sys::{fault, proc};

/// Words between the exact ones that belong to the threads: the first of them.
const WILD: usize = 64;

/// A word: process, thread, and a number that this thread uses once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Stamp(pub u64);

impl Stamp {
    pub fn new(process: u32, thread: u8, number: u32) -> Stamp {
        Stamp(u64::from(process) << 40 | u64::from(thread) << 32 | u64::from(number))
    }
    /// What a page begins with.
    pub const ZERO: Stamp = Stamp(0);

    fn process(self) -> u32 {
        (self.0 >> 40) as u32
    }
    pub fn thread(self) -> u8 {
        (self.0 >> 32) as u8
    }
}

impl std::fmt::Display for Stamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (process, thread, number) = (self.process(), self.thread(), self.0 as u32);
        match self.0 {
            0 => f.write_str("zero"),
            word => write!(
                f,
                "{word:#x} (process {process}, thread {thread}, number {number})"
            ),
        }
    }
}

/// This process and those that it was forked from.
#[derive(Clone, Copy)]
pub struct Lineage {
    processes: [u32; 3],
    len: usize,
}

impl Lineage {
    /// A process that shares no memory with its parent.
    pub fn first() -> Lineage {
        Lineage {
            processes: [proc::getpid() as u32; 3],
            len: 1,
        }
    }
    /// A child may have children until here.
    pub fn may_fork(&self) -> bool {
        self.len < self.processes.len()
    }
    /// Continues in the child `process`.
    pub fn enter_child(&mut self, process: u32) {
        self.processes[self.len] = process;
        self.len += 1;
    }
    fn covers(&self, stamp: Stamp) -> bool {
        self.processes[..self.len].contains(&stamp.process())
    }
}

/// Reads both exact words of a page; `None` if it is not mapped. Ends the program if they differ.
pub fn read(at: usize) -> Option<Stamp> {
    let first = fault::load(at).ok()?;
    let Ok(last) = fault::load(at + PAGE - 8) else {
        wrong(
            at,
            &format!("its first word is {}, its last is not mapped", Stamp(first)),
        );
    };
    if first != last {
        wrong(
            at,
            &format!(
                "its first word is {}, its last {}",
                Stamp(first),
                Stamp(last)
            ),
        );
    }
    Some(Stamp(first))
}

/// Writes both exact words; whether the page is mapped and may be written.
pub fn write(at: usize, stamp: Stamp) -> bool {
    fault::store(at, stamp.0).is_ok() && fault::store(at + PAGE - 8, stamp.0).is_ok()
}

/// Reads the wild word of `thread`, and writes that of the stamp's: both may fail, if nothing is
/// mapped there just now.
pub fn wild(at: usize, thread: u8, lineage: &Lineage, mine: Stamp) {
    let word = |thread: u8| at + (WILD + usize::from(thread)) * 8;
    if let Ok(found) = fault::load(word(thread)) {
        let found = Stamp(found);
        if found != Stamp::ZERO && !(lineage.covers(found) && found.thread() == thread) {
            wrong(at, &format!("the word of thread {thread} is {found}"));
        }
    }
    let _ = fault::store(word(mine.thread()), mine.0);
}

/// Prints what is wrong with a page, and ends the process: with it, all of its threads.
pub fn wrong(at: usize, what: &str) -> ! {
    let process = proc::getpid();
    let text = format!("torture: WRONG: process {process}: {at:#x}: {what}\n");
    let _ = userland::sys::file::write_all(1, text.as_bytes());
    proc::exit_now(1)
}
