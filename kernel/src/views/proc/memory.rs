//! pagemap, mem, cmdline and its like, clear_refs: a process's memory as seen from outside.

use super::observed::Observed;
use super::subject::{Known, Subject};
use super::{scan, words};
use crate::base::errno::{Errno, Result};
use crate::fs::open::io::{Sink, Source};
use crate::fs::open::ops::{At, FileOps};
use crate::process::task::{self, Image};
use alloc::sync::Arc;
use mm::PageInfo;
use mm::addr::{PAGE_SHIFT, PAGE_SIZE, VirtAddr, VirtRange};

/// The bits of a page, pagemap.rst.
const SOFT_DIRTY: u64 = 1 << 55;
const EXCLUSIVE: u64 = 1 << 56;
const WRITE_PROTECTED: u64 = 1 << 57;
const GUARD: u64 = 1 << 58;
const FILE_OR_SHARED: u64 = 1 << 61;
const SWAPPED: u64 = 1 << 62;
const PRESENT: u64 = 1 << 63;

struct Pagemap {
    observed: Observed,
    /// Only root may see which frames there are.
    frames: bool,
}

/// Opens /proc/PID/pagemap.
pub fn open_pagemap(subject: &Subject) -> Result<Arc<dyn FileOps>> {
    Ok(Arc::new(Pagemap {
        observed: Observed::new(subject),
        frames: task::current().process().credentials(|c| c.euid() == 0),
    }))
}

fn entry(info: &PageInfo, frames: bool) -> u64 {
    let bit = |on: bool, bit: u64| if on { bit } else { 0 };
    let soft_dirty = bit(info.soft_dirty, SOFT_DIRTY);
    let soft_dirty = soft_dirty | bit(info.write_protected, WRITE_PROTECTED);
    if !info.present {
        // As in Linux, whose markers are entries of swap.
        return soft_dirty | bit(info.guard, GUARD) | bit(info.marked || info.swapped, SWAPPED);
    }
    PRESENT
        | soft_dirty
        | bit(info.exclusive && !info.zero_page, EXCLUSIVE)
        | bit(info.file_or_shared, FILE_OR_SHARED)
        | bit(frames, info.pfn)
}

impl FileOps for Pagemap {
    /// Past the last user page the file ends, and everywhere once the process has.
    fn read(&self, at: At, sink: &mut Sink<'_>) -> Result<usize> {
        words::read(at, sink, user_end().div_ceil(PAGE_SIZE), |page, words| {
            let space = self.observed.space()?;
            let start = VirtAddr(page << PAGE_SHIFT);
            space.page_words(start, words, |info| entry(info, self.frames));
            Some(())
        })
    }
    fn ioctl(&self, command: u32, argument: u64) -> Result<u64> {
        scan::ioctl(&self.observed, command, argument)
    }
}

fn user_end() -> u64 {
    use mm::arch::PteFormat;
    crate::arch::pte::Format::USER_END.0
}

struct Mem(Observed);

/// Opens /proc/PID/mem.
pub fn open_mem(subject: &Subject) -> Result<Arc<dyn FileOps>> {
    Ok(Arc::new(Mem(Observed::new(subject))))
}

impl FileOps for Mem {
    fn read(&self, at: At, sink: &mut Sink<'_>) -> Result<usize> {
        sink.fill(|done, buffer| {
            let Some(space) = self.0.space() else {
                return Ok(0);
            };
            some(space.read(address(at, done)?, buffer, true))
        })
    }
    fn write(&self, at: At, source: &mut Source<'_>) -> Result<usize> {
        let mut done = 0;
        source.drain(|bytes| {
            let Some(space) = self.0.space() else {
                return Ok(0);
            };
            let n = some(space.write(address(at, done)?, bytes, true))?;
            done += n;
            Ok(n)
        })
    }
}

/// Strings that a process was started with: cmdline, environ, auxv. What it has now, also after
/// another execve.
struct StringArea {
    subject: Known,
    range: fn(&Image) -> VirtRange,
}

/// Opens the file of a range of the process's own memory; it is empty once the process has ended.
pub fn open_strings(subject: &Subject, range: fn(&Image) -> VirtRange) -> Result<Arc<dyn FileOps>> {
    Ok(Arc::new(StringArea {
        subject: subject.known(),
        range,
    }))
}

impl FileOps for StringArea {
    fn read(&self, at: At, sink: &mut Sink<'_>) -> Result<usize> {
        let Ok(Subject { process, .. }) = self.subject.subject() else {
            return Ok(0);
        };
        let range = (self.range)(&process.image());
        sink.fill(|done, buffer| {
            let position = at.position.saturating_add(done as u64);
            let from = range.start.checked_add(position);
            let Some((space, from)) = process.space.get().zip(from) else {
                return Ok(0);
            };
            let n = range.end.0.saturating_sub(from.0).min(buffer.len() as u64);
            Ok(space.read(from, &mut buffer[..n as usize], false))
        })
    }
}

fn address(at: At, done: usize) -> Result<VirtAddr> {
    at.position
        .checked_add(done as u64)
        .filter(|a| *a < user_end())
        .map(VirtAddr)
        .ok_or(Errno::EIO)
}

fn some(n: usize) -> Result<usize> {
    if n == 0 { Err(Errno::EIO) } else { Ok(n) }
}

/// /proc/PID/clear_refs. 1 to 3 clear the accessed bits, 4 the soft-dirty bits (soft-dirty.rst), 5
/// the peak.
pub fn clear_refs(subject: &Subject, text: &str) -> Result {
    let space = subject.space()?;
    match text.parse() {
        Ok(1) => space.clear_referenced(None),
        Ok(2) => space.clear_referenced(Some(false)),
        Ok(3) => space.clear_referenced(Some(true)),
        Ok(4) => space.clear_soft_dirty()?,
        Ok(5) => space.forget_peak(),
        _ => return Err(Errno::EINVAL),
    }
    Ok(())
}
