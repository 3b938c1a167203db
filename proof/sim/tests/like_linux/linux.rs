//! The calls as the host's Linux does them.

use super::{Area, Kind, PAGES, Remap, Step};
use std::io::{Read, Write};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use userland::sys::mem::{self, ANON, PAGE};
use userland::sys::{Errno, fault, keys, proc};

/// A place that nothing else is mapped at.
const BASE: usize = 0x1234_5600_0000;
/// What grows may reach out of the pages that are played with.
const END: usize = BASE + 2 * PAGES as usize * PAGE;

/// What is mapped at [`BASE`], by one test at a time; nothing is, before and after.
pub(crate) struct Linux(#[allow(dead_code, reason = "held, not read")] MutexGuard<'static, ()>);

static ONE: Mutex<()> = Mutex::new(());

/// Whether the host joins VMAs as Linux does since 6.16, and has transparent huge pages to advise
/// about.
pub(crate) fn joins_as_today() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release
        .split(['.', '-'])
        .map(|n| n.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let today =
        version >= (6, 16) && std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists();
    if !today {
        eprintln!("skipped: {release} is no Linux to compare with");
    }
    today
}

/// Whether the host has protection keys.
pub(crate) fn has_keys() -> bool {
    static HAS: LazyLock<bool> = LazyLock::new(|| smaps().contains("ProtectionKey:"));
    *HAS
}

/// The process has key 0 alone then, as a new one.
fn reset_keys() {
    (0..16).for_each(|key| _ = keys::free(key));
    let _ = keys::alloc(0, 0);
}

fn smaps() -> String {
    std::fs::read_to_string("/proc/self/smaps").expect("smaps")
}

fn at(page: u64) -> usize {
    BASE + page as usize * PAGE
}

impl Linux {
    pub(crate) fn new() -> Self {
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        fault::arm();
        let _ = mem::munmap(BASE, END - BASE);
        reset_keys();
        Linux(one)
    }

    /// What `act` says in a child.
    pub(crate) fn in_child(&self, act: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
        let (mut reader, mut writer) = std::io::pipe().expect("a pipe");
        match proc::fork().expect("a child") {
            proc::Fork::Child => {
                // A panic must not run the tests that are left.
                let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act));
                let done = done.unwrap_or_else(|_| Err("a panic in the child".to_owned()));
                let why = done.err().unwrap_or_default();
                let told = writer.write_all(why.as_bytes());
                proc::exit_now(if why.is_empty() && told.is_ok() { 0 } else { 1 })
            }
            proc::Fork::Parent(pid) => {
                drop(writer);
                let mut why = String::new();
                reader.read_to_string(&mut why).expect("the child's words");
                match proc::wait_for(pid) {
                    Ok(proc::Status::Exited(0)) => Ok(()),
                    status => Err(format!("{why} ({status:?})")),
                }
            }
        }
    }

    /// What the call gives, an errno if it refuses.
    pub(crate) fn run(&self, step: &Step) -> Result<Vec<u8>, i32> {
        let done = match *step {
            Step::Map(page, len, prot, kind) => {
                let flags = libc::MAP_FIXED
                    | match kind {
                        Kind::Private => ANON,
                        Kind::Shared => libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                        Kind::NoReserve => ANON | libc::MAP_NORESERVE,
                        Kind::Stack => ANON | libc::MAP_GROWSDOWN,
                        Kind::Locked => ANON | libc::MAP_LOCKED,
                        Kind::Populated => ANON | libc::MAP_POPULATE,
                    };
                mem::mmap(at(page), len as usize * PAGE, prot, flags, -1, 0).map(drop)
            }
            Step::MapNoReplace(page, len) => {
                let flags = ANON | libc::MAP_FIXED_NOREPLACE;
                mem::mmap(at(page), len as usize * PAGE, mem::RW, flags, -1, 0).map(drop)
            }
            Step::Unmap(page, len) => mem::munmap(at(page), len as usize * PAGE),
            Step::Protect(page, len, prot) => mem::mprotect(at(page), len as usize * PAGE, prot),
            Step::ProtectWithKey(page, len, prot, key) => {
                keys::protect(at(page), len as usize * PAGE, prot, key)
            }
            Step::AllocateKey => {
                return keys::alloc(0, 0)
                    .map(|key| vec![key as u8])
                    .map_err(|e| e.0);
            }
            Step::FreeKey(key) => keys::free(key),
            Step::Advise(page, len, advice) => mem::madvise(at(page), len as usize * PAGE, advice),
            Step::Lock(page, len, on_fault) => mlock2(at(page), len as usize * PAGE, on_fault),
            Step::Unlock(page, len) => mem::munlock(at(page), len as usize * PAGE),
            Step::Seal(page, len) => mem::mseal(at(page), len as usize * PAGE, 0),
            Step::Read(page) => {
                let read = fault::read(at(page));
                return read.map(|value| vec![value]).map_err(|_| 0);
            }
            Step::Write(page, byte) => fault::write(at(page), byte).map_err(|_| Errno(0)),
            Step::Remap(remap) => return remap_to(&remap).map_err(|e| e.0),
            Step::InMemory(page, len) => {
                let pages = mem::mincore(at(page), len as usize).map_err(|e| e.0)?;
                return Ok(pages.iter().map(|byte| byte & 1).collect());
            }
            Step::Fork => Ok(()),
        };
        done.map(|()| Vec::new()).map_err(|e| e.0)
    }

    pub(crate) fn areas(&self) -> Vec<Area> {
        let smaps = smaps();
        let mut out: Vec<Area> = Vec::new();
        let (mut inside, mut key) = (false, "");
        for line in smaps.lines() {
            if let Some((start, end, prot)) = header(line) {
                inside = (BASE..END).contains(&start);
                if inside {
                    let first = (start - BASE) / PAGE;
                    out.push((
                        first as u64,
                        ((end - start) / PAGE) as u64,
                        prot.into(),
                        String::new(),
                    ));
                }
            } else if let Some(number) = line.strip_prefix("ProtectionKey:") {
                key = number.trim();
            } else if let (true, Some(words), Some(area)) =
                (inside, line.strip_prefix("VmFlags: "), out.last_mut())
            {
                // Soft dirty is not kept here; "??" is a bit that has no name.
                let known = |w: &&str| !["sd", "??"].contains(w);
                area.3 = words
                    .split_whitespace()
                    .filter(known)
                    .chain((!key.is_empty()).then_some(key))
                    .collect::<Vec<_>>()
                    .join(" ");
            }
        }
        out
    }
}

/// What [`Linux::run`] fails with when memory went to where Linux joined its VMA with one that was
/// there by chance: of which anon_vma it is from then on is nothing to compare.
pub(crate) const JOINED_ELSEWHERE: i32 = i32::MAX;

/// Where the memory is: its page, or nothing if it had gone elsewhere.
fn remap_to(remap: &Remap) -> userland::sys::Result<Vec<u8>> {
    let (old_len, new_len) = (remap.old_len as usize * PAGE, remap.new_len as usize * PAGE);
    let (from, to) = (at(remap.at), at(remap.to));
    let now = mem::mremap(from, old_len, new_len, remap.flags, to)?;
    if (BASE..END).contains(&now) {
        return Ok(vec![((now - BASE) / PAGE) as u8]);
    }
    let there =
        |line: &str| header(line).is_some_and(|area| (area.0, area.1) == (now, now + new_len));
    if !smaps().lines().any(there) {
        return Err(Errno(JOINED_ELSEWHERE));
    }
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    mem::mremap(now, new_len, new_len, flags, to)?;
    Ok(Vec::new())
}

impl Drop for Linux {
    fn drop(&mut self) {
        let _ = mem::munmap(BASE, END - BASE);
        reset_keys();
    }
}

fn header(line: &str) -> Option<(usize, usize, &str)> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let number = |s| usize::from_str_radix(s, 16).ok();
    Some((number(start)?, number(end)?, rest.split(' ').next()?))
}

fn mlock2(at: usize, len: usize, on_fault: bool) -> userland::sys::Result<()> {
    let flags = if on_fault {
        libc::MLOCK_ONFAULT as usize
    } else {
        0
    };
    userland::sys::call(libc::SYS_mlock2, [at, len, flags, 0, 0, 0]).map(drop)
}
