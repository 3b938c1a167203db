//! Core dumps, core(5): the memory and the registers of a process that a signal ends, in the file
//! `core` of its working directory, or as /proc/sys/kernel/core_pattern has it, up to RLIMIT_CORE.
//!
//! The thread that takes the signal ends the others, each of which leaves its registers, and writes
//! the file alone.

use crate::arch::trap::{StopAt, UserContext};
use crate::base::clock;
use crate::base::errno::{Errno, Result};
use crate::base::hostname;
use crate::base::machine::{ELF_MACHINE, Space, Vma};
use crate::base::ranks;
use crate::base::room;
use crate::fs::kinds::text::Text;
use crate::fs::open::io::Source;
use crate::fs::tree::inode::FileKind;
use crate::fs::{OpenFile, OpenFlags, open};
use crate::process::signal::{self, SigInfo};
use crate::process::task::{self, Process, Resource, Task};
use crate::sched;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use arrayvec::ArrayString;
use elf::abi;
use mm::addr::{PAGE_SIZE, VirtAddr};
use mm::sync::Lock;
use mm::vma::{Backing, Prot, VmaFlags};
use parts::core_file::{self, Mapped, NT_SIGINFO, Notes, Segment, Status};
use parts::core_name::{Facts, LONGEST, Name};

const NT_PRSTATUS: u32 = abi::NT_PRSTATUS as u32;
const NT_PRFPREG: u32 = abi::NT_PRFPREG as u32;
const NT_AUXV: u32 = abi::NT_AUXV as u32;
/// Sets of registers behind the general ones: this machine's have a size.
const SETS: [(&str, u32); 3] = [("CORE", NT_PRFPREG), ("LINUX", 0x202), ("LINUX", 0x401)];
/// /proc/sys/kernel/core_pattern; `core` while it is empty.
static PATTERN: Lock<ArrayString<LONGEST>, { ranks::PROCESS }> =
    Lock::new(ArrayString::new_const());

/// The registers of a thread that has ended, each set with its owner and kind.
struct Left {
    status: Status,
    sets: Vec<(&'static str, u32, Vec<u8>)>,
}

/// What the threads of a process have left for its dump.
#[derive(Default)]
pub struct Remains(Vec<Left>);

/// What files are called.
pub fn show_pattern(out: &mut Text) -> Result {
    out.is(pattern())
}

fn pattern() -> ArrayString<LONGEST> {
    let mut pattern = *PATTERN.lock();
    if pattern.is_empty() {
        pattern.push_str("core");
    }
    pattern
}

/// Sets it; an empty one is `core`. EINVAL: it has more than 127 bytes, or names a program that is
/// to have the dump by a pipe, which nothing here does.
pub fn set_pattern(text: &str) -> Result {
    let pattern = ArrayString::from(text).map_err(|_| Errno::EINVAL)?;
    if pattern.starts_with('|') {
        return Err(Errno::EINVAL);
    }
    *PATTERN.lock() = pattern;
    Ok(())
}

/// Bytes of a dump, and whether one is made.
fn limit(process: &Process) -> Option<u64> {
    let limit = process.limits().soft(Resource::Core);
    let dumpable = process.dumpable.load(core::sync::atomic::Ordering::Relaxed) == 1;
    Some(limit).filter(|limit| dumpable && *limit >= PAGE_SIZE)
}

/// Writes the dump of the running thread's process, which `info` ends. Whether it has one; a file
/// that cannot be written whole ends where it could not.
pub fn dump(task: &Arc<Task>, user: &mut UserContext, info: &SigInfo) -> bool {
    let process = task.process();
    let Some(limit) = limit(process).filter(|_| !process.is_left_alone()) else {
        return false;
    };
    // It has its own number still.
    let own = left(task, user, info.signo);
    *process.remains.lock() = Some(Box::default());
    let alone = task::kill_other_threads(task);
    let others = process.remains.lock().take();
    let (Ok(own), Ok(()), Some(others)) = (own, alone, others) else {
        return false;
    };
    match write(task, &own, &others.0, info, limit) {
        Ok(()) => true,
        Err(why) => {
            log::info!("{}[{}]: no core file: {why:?}", task.comm(), process.pid());
            false
        }
    }
}

/// A thread ends: it leaves its registers if its process is being dumped. Without memory for them
/// it is not in the dump.
pub fn leave(task: &Arc<Task>, user: &mut UserContext) {
    let process = task.process();
    if !process.is_left_alone() || process.remains.lock().is_none() {
        return;
    }
    if let Ok(left) = left(task, user, 0) {
        let mut remains = process.remains.lock();
        if let Some(remains) = remains.as_mut() {
            let _ = fallible::push(&mut remains.0, left);
        }
    }
}

fn left(task: &Arc<Task>, user: &mut UserContext, signo: i32) -> Result<Left> {
    room::check(Errno::ENOMEM)?;
    user.begin_stop(StopAt::Call);
    let process = task.process();
    let times = process.times();
    let all = [("CORE", NT_PRSTATUS)].into_iter().chain(SETS);
    let mut sets = Vec::new();
    for (owner, kind) in all {
        let Some(size) = UserContext::set_size(kind) else {
            continue;
        };
        let mut bytes = fallible::filled(0, size)?;
        user.copy_set(kind, &mut bytes);
        fallible::push(&mut sets, (owner, kind, bytes))?;
    }
    let status = Status {
        signo,
        sets: [signal::pending_set(task), task.blocked()],
        ids: [task.tid(), process.ppid(), process.pgid(), process.sid()],
        times: [
            task.sched.times.user() / 1000,
            task.sched.times.system() / 1000,
            times.children_user / 1000,
            times.children_system / 1000,
        ],
    };
    Ok(Left { status, sets })
}

/// A part of memory, and which of its pages are written.
struct Part {
    segment: Segment,
    /// Also those that no entry maps: a file's.
    every: bool,
}

fn part(space: &Space, vma: &Vma) -> Part {
    let (start, len) = (vma.range.start, vma.range.end - vma.range.start);
    let shared = vma.flags.contains(VmaFlags::SHARED);
    let is_huge = vma.flags.contains(VmaFlags::HUGETLB);
    let (held, every) = match &vma.backing {
        _ if vma.flags.contains(VmaFlags::DONTDUMP) || is_huge && shared => (0, false),
        Backing::Object { file: Some(_), .. } if shared => (0, false),
        Backing::Object {
            offset,
            file: Some(_),
            ..
        } if !has_anon(space, vma) => {
            // What a debugger knows a library by: its ELF header.
            (if *offset == 0 { PAGE_SIZE } else { 0 }, true)
        }
        Backing::Object { .. } => (len, !is_huge),
        Backing::Anon => (len, false),
    };
    let rights = [
        (Prot::READ, abi::PF_R),
        (Prot::WRITE, abi::PF_W),
        (Prot::EXEC, abi::PF_X),
    ];
    let rights = rights.iter().filter(|(right, _)| vma.prot.contains(*right));
    let segment = Segment {
        start: start.0,
        len,
        held,
        rights: rights.fold(0, |all, (_, bit)| all | bit),
    };
    Part { segment, every }
}

/// Pages that are looked at together.
const BATCH: usize = 64;

/// What [`look`] says of a page: an entry maps it, and the frame is none of a file's.
const PRESENT: u64 = 1;
const OWN: u64 = 2;

/// Looks at pages from `at` on.
fn look(space: &Space, at: VirtAddr, words: &mut [u64]) {
    space.page_words(at, words, |info| {
        let present = info.present && !info.zero_page;
        let own = info.present && !info.file_or_shared;
        u64::from(present) | u64::from(own) << OWN.trailing_zeros()
    });
}

/// Whether a private area of a file has pages of its own.
fn has_anon(space: &Space, vma: &Vma) -> bool {
    let mut words = [0; BATCH];
    let mut at = vma.range.start;
    while at < vma.range.end {
        look(space, at, &mut words);
        let left = ((vma.range.end - at) / PAGE_SIZE) as usize;
        if words.iter().take(left).any(|word| word & OWN != 0) {
            return true;
        }
        at = VirtAddr(at.0 + words.len() as u64 * PAGE_SIZE);
    }
    false
}

fn write(task: &Arc<Task>, own: &Left, others: &[Left], info: &SigInfo, limit: u64) -> Result {
    let process = task.process();
    let space = process.space.get().ok_or(Errno::ESRCH)?;
    let file = create(task, info.signo)?;
    let (mut parts, mut files) = (Vec::new(), Vec::<Mapped<String>>::new());
    let mut failed = None;
    space.for_each_vma(&mut |vma| {
        let mut add = || -> Result {
            // As many as a header can count.
            if parts.len() < usize::from(u16::MAX - 1) {
                fallible::push(&mut parts, part(&space, vma))?;
            }
            if let Backing::Object {
                offset,
                file: Some(file),
                ..
            } = &vma.backing
            {
                room::check(Errno::ENOMEM)?;
                let mapped = Mapped {
                    range: [vma.range.start.0, vma.range.end.0],
                    page: *offset,
                    path: file.path(),
                };
                fallible::push(&mut files, mapped)?;
            }
            Ok(())
        };
        failed = failed.or(add().err());
    });
    failed.map_or(Ok(()), Err)?;
    let notes = notes(task, &space, (own, others), info, &files)?;
    let segments = fallible::collect(parts.iter().map(|part| part.segment))?;
    let head = core_file::head(ELF_MACHINE, &notes, &segments)?;
    let mut dump = Dump { task, file, limit };
    dump.put(0, &head)?;
    let mut offset = head.len() as u64;
    for part in &parts {
        dump.part(&space, part, offset)?;
        offset += part.segment.held;
    }
    let inode = &dump.file.place.inode;
    let _changing = inode.node().change_content()?;
    inode.resize(offset.min(limit))
}

/// Creates the file, which nobody else may read.
fn create(task: &Task, signal: i32) -> Result<Arc<OpenFile>> {
    let fs = task.fs();
    let process = task.process();
    let name = Name::new(
        pattern().as_bytes(),
        &Facts {
            pid: process.pid(),
            tid: task.tid(),
            ids: process.credentials(|it| (it.uid[0], it.gid[0])),
            signal,
            time: clock::realtime() / 1_000_000_000,
            host: &hostname::get(),
            comm: task.comm().as_bytes(),
        },
    );
    let name = name.ok_or(Errno::ENAMETOOLONG)?;
    let flags = OpenFlags::CREAT | OpenFlags::TRUNC | OpenFlags::NOFOLLOW | OpenFlags::NONBLOCK;
    let file = open::open(&fs, fs.cwd(), name.bytes(), flags | OpenFlags::RDWR, 0o600)?;
    match file.place.inode.node().kind {
        FileKind::Regular => Ok(file),
        _ => Err(Errno::EINVAL),
    }
}

fn notes(
    task: &Arc<Task>,
    space: &Space,
    (own, others): (&Left, &[Left]),
    info: &SigInfo,
    files: &[Mapped<String>],
) -> Result<Notes> {
    let process = task.process();
    let mut notes = Notes::default();
    add_thread(&mut notes, own, |notes| {
        let ids = process.credentials(|it| (it.uid[0], it.gid[0]));
        let image = process.image();
        let mut arguments = [0; 79];
        let n = (image.args.end - image.args.start).min(arguments.len() as u64);
        space.read(image.args.start, &mut arguments[..n as usize], false);
        let name = task.comm();
        notes.add_program(
            ids,
            own.status.ids,
            name.as_bytes(),
            &arguments[..n as usize],
        )?;
        notes.add("CORE", NT_SIGINFO, &info.to_bytes())?;
        let len = (image.auxv.end - image.auxv.start).min(PAGE_SIZE) as usize;
        let mut auxv = fallible::filled(0, len)?;
        space.read(image.auxv.start, &mut auxv, false);
        notes.add("CORE", NT_AUXV, &auxv)?;
        notes.add_files(files)?;
        Ok(())
    })?;
    for other in others {
        add_thread(&mut notes, other, |_| Ok(()))?;
    }
    Ok(notes)
}

/// A thread's registers; the process's notes come after the general ones of the first.
fn add_thread(
    notes: &mut Notes,
    left: &Left,
    between: impl FnOnce(&mut Notes) -> Result,
) -> Result {
    let mut sets = left.sets.iter();
    if let Some((_, _, general)) = sets.next() {
        notes.add_status(&left.status, general)?;
    }
    between(notes)?;
    for (owner, kind, bytes) in sets {
        notes.add(owner, *kind, bytes)?;
    }
    Ok(())
}

/// The file that is being written.
struct Dump<'a> {
    task: &'a Task,
    file: Arc<OpenFile>,
    limit: u64,
}

impl Dump<'_> {
    /// Writes bytes at a place in the file; those past the limit are left out.
    fn put(&mut self, at: u64, bytes: &[u8]) -> Result {
        let len = self.limit.saturating_sub(at).min(bytes.len() as u64) as usize;
        let mut source = Source::kernel(&bytes[..len]);
        while source.left() > 0 {
            let done = len - source.left();
            if self.file.write_at(at + done as u64, &mut source)? == 0 {
                return Err(Errno::ENOSPC);
            }
        }
        Ok(())
    }

    /// Writes the pages of a part that are there, or all; the file has holes for others.
    fn part(&mut self, space: &Space, part: &Part, offset: u64) -> Result {
        let Segment { start, held, .. } = part.segment;
        let mut words = [0; BATCH];
        let mut page: Vec<u8> = fallible::filled(0, PAGE_SIZE as usize)?;
        let pages = held / PAGE_SIZE;
        for first in (0..pages).step_by(BATCH) {
            let at = |n: u64| VirtAddr(start + n * PAGE_SIZE);
            look(space, at(first), &mut words);
            for n in first..pages.min(first + BATCH as u64) {
                let is_there = words[(n - first) as usize] & PRESENT != 0;
                if is_there || part.every {
                    let read = space.read(at(n), &mut page, true);
                    self.put(offset + n * PAGE_SIZE, &page[..read])?;
                }
            }
            if sched::breathe() || signal::is_killed(self.task) {
                return Err(Errno::EINTR);
            }
        }
        Ok(())
    }
}

/// The wait status of a process that a signal has ended.
pub fn status(signo: i32, dumped: bool) -> i32 {
    const WCOREFLAG: i32 = 0x80;
    signo | if dumped { WCOREFLAG } else { 0 }
}
