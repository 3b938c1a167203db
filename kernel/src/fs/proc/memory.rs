//! pagemap, mem, clear_refs: a process's memory as seen from outside.

use super::dir::Subject;
use super::words;
use crate::errno::{Errno, Result};
use crate::fs::file::{At, FileOps};
use crate::fs::io::{Sink, Source};
use crate::machine::AddressSpace;
use crate::task;
use alloc::sync::Arc;
use mm::addr::{PAGE_SHIFT, PAGE_SIZE, VirtAddr};
use mm::space::PageInfo;

/// The bits of a page, pagemap.rst.
const SOFT_DIRTY: u64 = 1 << 55;
const EXCLUSIVE: u64 = 1 << 56;
const FILE_OR_SHARED: u64 = 1 << 61;
const PRESENT: u64 = 1 << 63;

struct Pagemap {
    space: Arc<AddressSpace>,
    /// Only root may see which frames there are.
    frames: bool,
}

/// Opens /proc/PID/pagemap.
pub fn open_pagemap(subject: &Subject) -> Result<Arc<dyn FileOps>> {
    Ok(Arc::new(Pagemap {
        space: subject.space()?,
        frames: task::current().process().credentials(|c| c.euid() == 0),
    }))
}

fn entry(info: &PageInfo, frames: bool) -> u64 {
    let bit = |on: bool, bit: u64| if on { bit } else { 0 };
    let soft_dirty = bit(info.soft_dirty, SOFT_DIRTY);
    if !info.present {
        return soft_dirty;
    }
    PRESENT
        | soft_dirty
        | bit(info.exclusive && !info.zero_page, EXCLUSIVE)
        | bit(info.file_or_shared, FILE_OR_SHARED)
        | bit(frames, info.pfn)
}

impl FileOps for Pagemap {
    fn read(&self, at: At, sink: &mut Sink<'_>) -> Result<usize> {
        // Past the last user page the file ends.
        words::read(at, sink, user_end().div_ceil(PAGE_SIZE), |page| {
            let info = self.space.page_info(VirtAddr(page << PAGE_SHIFT));
            entry(&info, self.frames)
        })
    }
}

fn user_end() -> u64 {
    use mm::arch::PteFormat;
    crate::arch::pte::Format::USER_END.0
}

struct Mem(Arc<AddressSpace>);

/// Opens /proc/PID/mem.
pub fn open_mem(subject: &Subject) -> Result<Arc<dyn FileOps>> {
    Ok(Arc::new(Mem(subject.space()?)))
}

impl FileOps for Mem {
    fn read(&self, at: At, sink: &mut Sink<'_>) -> Result<usize> {
        sink.fill(|done, buffer| some(self.0.read(address(at, done)?, buffer)))
    }
    fn write(&self, at: At, source: &mut Source<'_>) -> Result<usize> {
        let mut done = 0;
        source.drain(|bytes| {
            let n = some(self.0.write(address(at, done)?, bytes, true))?;
            done += n;
            Ok(n)
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

/// /proc/PID/clear_refs. 1 to 3 clear who was used, 4 what was written (soft-dirty.rst), 5 the peak.
pub fn clear_refs(subject: &Subject, text: &str) -> Result {
    let space = subject.space()?;
    match text.parse() {
        Ok(1) => space.clear_referenced(None),
        Ok(2) => space.clear_referenced(Some(false)),
        Ok(3) => space.clear_referenced(Some(true)),
        Ok(4) => space.clear_soft_dirty().map_err(|_| Errno::ENOMEM)?,
        Ok(5) => space.forget_peak(),
        _ => return Err(Errno::EINVAL),
    }
    Ok(())
}
