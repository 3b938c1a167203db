//! More processes at once than there are ids in the account of folios (docs/ownership.md): each has
//! a page of a large folio that it wrote for itself, and a folio that all of them share. Fork works
//! or says EAGAIN, and no process sees what another one wrote.
use super::Outcome;
use std::fs;
use userland::controls::Controls;
use userland::counters::{Missing, own, table};
use userland::sys::mem::{ANON, PAGE, RW, load, mmap, store};
use userland::sys::proc::{self, Fork, Status};
use userland::sys::{Errno, Result, file};

/// How many address spaces have an id of their own.
const UNIQUE: &str = "/sys/kernel/mm/quire/ids";
/// Children, if the command line does not say how many.
const CHILDREN: usize = 33_000;
const PID_MAX: &str = "/proc/sys/kernel/pid_max";
/// Pages of the folio that each child writes to, and of the one that is only read.
const WRITTEN: usize = 4;
const READ: usize = 16;

/// `crowd [CHILDREN]`.
pub fn at_once(words: &[String]) -> Outcome {
    let children = words.first().map_or(Ok(CHILDREN), |word| word.parse());
    let children = children.map_err(|_| "how many children?".to_owned())?;
    let controls = Controls::take();
    let pid_max = fs::read_to_string(PID_MAX).map_err(|error| format!("{PID_MAX}: {error}"))?;
    let outcome = crowd(children, &controls).map_err(|error| format!("{error}"));
    set_pid_max(pid_max.trim()).map_err(|error| format!("{error}"))?;
    outcome?
}

fn set_pid_max(to: &str) -> Result<()> {
    Ok(fs::write(PID_MAX, to)?)
}

fn crowd(children: usize, controls: &Controls) -> Result<Outcome> {
    proc::setrlimit(libc::RLIMIT_NPROC, 1 << 22, 1 << 22)?;
    let mut crowd = Crowd::new(controls)?;
    let before = Memory::now()?;
    let sharing = || own("mm_ids_common").map_err(Missing::say);
    let shared = sharing()?;
    // The numbers that there are by default, then as many as are wanted.
    let refused = crowd.grow(children);
    if crowd.pids.len() < children {
        if refused != Err(Errno(libc::EAGAIN)) {
            return Ok(Err(format!("fork beyond pid_max says {refused:?}")));
        }
        println!("abuse: crowd: EAGAIN after {} children", crowd.pids.len());
        set_pid_max("4194304")?;
        crowd.grow(children)?;
    }
    let cost = before.each(&Memory::now()?, children);
    let common = sharing()?;
    // What the parent writes now is its own.
    (0..READ).for_each(|page| store(crowd.read + page * PAGE, 0));
    let wrong = crowd.end()?;
    // This one, the one that started it, and PID 1 have ids, too.
    let unique = fs::read_to_string(UNIQUE)?.trim().parse().unwrap_or(0);
    let beyond = (children as u64 + 3).saturating_sub(unique);
    let left = sharing()?;
    if wrong != 0 || common < beyond || left != shared {
        return Ok(Err(format!(
            "{wrong} of {children} children saw what they did not write; {common} spaces shared an id, {left} afterwards"
        )));
    }
    Ok(Ok(format!(
        "{children} processes of {cost}, of which {common} shared an id"
    )))
}

/// Frames by use.
struct Memory {
    kernel: u64,
    tables: u64,
    private: u64,
}

impl Memory {
    fn now() -> Result<Memory> {
        let vmstat = table("/proc/vmstat");
        let frames = |name: &str| vmstat.get(name).map_err(Missing::say);
        Ok(Memory {
            kernel: frames("nr_slab_unreclaimable")?,
            tables: frames("nr_page_table_pages")?,
            private: frames("nr_anon_pages")?,
        })
    }

    /// What each of `count` processes costs, if there are so many more now.
    fn each(&self, now: &Memory, count: usize) -> String {
        let kb = |before: u64, now: u64| now.saturating_sub(before) * 4 / count as u64;
        let kernel = kb(self.kernel, now.kernel);
        let tables = kb(self.tables, now.tables);
        let private = kb(self.private, now.private);
        let all = kernel + tables + private;
        format!(
            "{all} kB each ({kernel} of the kernel, {tables} of page tables, {private} of their own)"
        )
    }
}

/// Children that wait for the end of a pipe.
struct Crowd {
    /// Each child writes here, in a folio that it got from its parent.
    written: usize,
    /// Nothing is written here while there are children.
    read: usize,
    pids: Vec<i32>,
    /// The children's end, and the one that lets them go.
    wait: (i32, i32),
    /// Where each says that it has written.
    ready: (i32, i32),
}

impl Crowd {
    fn new(controls: &Controls) -> Result<Crowd> {
        let folio = |pages: usize| -> Result<usize> {
            controls.only(4 * pages)?;
            let at = mmap(0, 2 * pages * PAGE, RW, ANON, -1, 0)?.next_multiple_of(pages * PAGE);
            (0..pages).for_each(|page| store(at + page * PAGE, mark(0, page)));
            Ok(at)
        };
        let (written, read) = (folio(WRITTEN)?, folio(READ)?);
        // What a child copies of the parent's own memory is as little as can be.
        controls.only(4)?;
        Ok(Crowd {
            written,
            read,
            pids: Vec::new(),
            wait: file::pipe(0)?,
            ready: file::pipe(0)?,
        })
    }

    /// Until there are so many, each of which has written before the next one comes.
    fn grow(&mut self, children: usize) -> Result<()> {
        while self.pids.len() < children {
            match proc::fork()? {
                Fork::Child => self.child(),
                Fork::Parent(pid) => self.pids.push(pid),
            }
            file::read(self.ready.0, &mut [0])?;
        }
        Ok(())
    }

    fn child(&self) -> ! {
        let me = self.pids.len() as u64 + 1;
        let mine = self.written + me as usize % WRITTEN * PAGE;
        let mut right = self.is_as_before(0);
        store(mine, mark(me, me as usize % WRITTEN));
        let _ = file::close(self.wait.1);
        let _ = file::write_all(self.ready.1, &[1]);
        while file::read(self.wait.0, &mut [0]) == Err(Errno(libc::EINTR)) {}
        right &= self.is_as_before(me);
        proc::exit_now(i32::from(!right))
    }

    /// Whether all is as it was at the fork, but for the page that child `me` wrote, if it did.
    fn is_as_before(&self, me: u64) -> bool {
        let wrote = |page| if me as usize % WRITTEN == page { me } else { 0 };
        (0..WRITTEN).all(|page| load(self.written + page * PAGE) == mark(wrote(page), page))
            && (0..READ).all(|page| load(self.read + page * PAGE) == mark(0, page))
    }

    /// Lets all of them go; how many saw something else than they should have.
    fn end(self) -> Result<usize> {
        file::close(self.wait.1)?;
        let mut wrong = 0;
        for _ in &self.pids {
            let ended = proc::wait(-1, 0)?;
            wrong += usize::from(ended.is_none_or(|(_, status)| status != Status::Exited(0)));
        }
        Ok(wrong)
    }
}

/// The contents of a page that child `who` wrote, 0 for the parent.
fn mark(who: u64, page: usize) -> u64 {
    who << 8 | (page as u64 + 1)
}
