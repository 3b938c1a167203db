//! zram0 (Documentation/admin-guide/blockdev/zram.rst, swapon(2)): the swap of private memory as
//! Linux names it, a compressed disk and a swap area on it. It is there if slots were reserved at
//! boot (`zram=`), and on from boot.
//!
//! What is swapped has no place on the disk: the memory manager keeps it (docs/pressure.md). The
//! disk is what programs write to it, the header of the swap area before all, in an object as files
//! are, which a reset drops.

use crate::base::errno::{Errno, Result};
use crate::base::machine::{Object, mm};
use crate::base::ranks;
use crate::base::user_ptr::UserPtr;
use crate::fs::open::flags::OpenFlags;
use crate::fs::open::io::{Sink, Source};
use crate::fs::open::ops::{At, FileOps};
use crate::fs::tree::inode::Device;
use alloc::sync::Arc;
use linux_raw_sys::ioctl::{BLKGETSIZE, BLKGETSIZE64, BLKPBSZGET, BLKSSZGET};
use mm::Policy;
use mm::addr::{PAGE_SHIFT, PAGE_SIZE};
use mm::arch::Machine;
use mm::sync::Lock;
use parts::swap_header;

/// Its number: the major one is Linux's to choose.
pub const NUMBER: Device = Device(252, 0);
/// The unit of sizes of disks.
pub const SECTOR: u64 = 512;
/// The priority of the area that is on from boot: what scripts give to a device of zram.
const AT_BOOT: i32 = 100;

/// The swap area.
#[derive(Clone, Copy)]
pub struct Area {
    /// Its pages.
    pub pages: u64,
    /// The priority it was turned on with.
    pub priority: i32,
    /// It is being turned off.
    leaves: bool,
}

struct State {
    /// Of the size of the disk; `None`: it has none yet.
    contents: Option<Arc<Object>>,
    area: Option<Area>,
    /// Open files.
    open: u64,
}

static STATE: Lock<State, { ranks::ZRAM }> = Lock::new(State {
    contents: None,
    area: None,
    open: 0,
});

/// Whether there is one.
pub fn exists() -> bool {
    mm().slots().reserved() != 0
}

/// The whole of it is the swap area that is on from boot.
pub fn start() {
    let pages = mm().slots().reserved();
    if pages != 0 {
        let mut state = STATE.lock();
        state.contents = Some(disk_of(pages));
        state.area = Some(Area {
            pages,
            priority: AT_BOOT,
            leaves: false,
        });
    }
}

fn disk_of(pages: u64) -> Arc<Object> {
    let object = Object::new(mm());
    object.set_len(pages * PAGE_SIZE);
    object
}

fn contents() -> Option<Arc<Object>> {
    STATE.lock().contents.clone()
}

/// The size of the disk in bytes; 0 before it has one.
pub fn size() -> u64 {
    contents().map_or(0, |contents| contents.len())
}

/// Pages that were written to it.
pub fn written() -> u64 {
    contents().map_or(0, |contents| contents.pages())
}

/// Gives it a size, in bytes. EBUSY: it has one; EINVAL: 0; ENOMEM: more than was reserved.
pub fn set_size(bytes: u64) -> Result {
    let mut state = STATE.lock();
    let pages = bytes.div_ceil(PAGE_SIZE);
    match () {
        _ if state.contents.is_some() => Err(Errno::EBUSY),
        _ if pages == 0 => Err(Errno::EINVAL),
        _ if pages > mm().slots().reserved() => Err(Errno::ENOMEM),
        _ => {
            state.contents = Some(disk_of(pages));
            Ok(())
        }
    }
}

/// Drops what was written, and the size. EBUSY: it is open, or swap is on.
pub fn reset() -> Result {
    let mut state = STATE.lock();
    if state.open != 0 || state.area.is_some() {
        return Err(Errno::EBUSY);
    }
    let contents = state.contents.take();
    drop(state);
    mm().forget_peak();
    if let Some(contents) = contents {
        contents.truncate(0);
    }
    Ok(())
}

/// The swap area, if it is on.
pub fn area() -> Option<Area> {
    STATE.lock().area
}

/// swapon(2) of it. EBUSY: it is on; EINVAL: there is no header of a swap area, or not of one that
/// fits.
pub fn swap_on(priority: i32) -> Result {
    let mut state = STATE.lock();
    if state.area.is_some() {
        return Err(Errno::EBUSY);
    }
    let contents = state.contents.as_ref().ok_or(Errno::EINVAL)?;
    let (mut info, mut magic) = ([0; 12], [0; 10]);
    contents.read_at(swap_header::INFO, &mut info);
    contents.read_at(swap_header::MAGIC, &mut magic);
    let pages = swap_header::usable(info, magic, contents.len() >> PAGE_SHIFT);
    let pages = pages.ok_or(Errno::EINVAL)?;
    state.area = Some(Area {
        pages,
        priority,
        leaves: false,
    });
    mm().swap_on(pages);
    Ok(())
}

/// swapoff(2) of it; the caller holds no lock but the kernel lock. EINVAL: it is not on, or another
/// does it; with an error of the memory manager it stays on.
pub fn swap_off(stops: fn() -> bool) -> Result {
    let mut state = STATE.lock();
    let area = state.area.as_mut().filter(|area| !area.leaves);
    let area = area.ok_or(Errno::EINVAL)?;
    let limit = mm().commit_limit() - area.pages;
    if mm().overcommit().policy() == Policy::Never && mm().committed() > limit {
        return Err(Errno::ENOMEM);
    }
    area.leaves = true;
    drop(state);
    let mut done = Ok(());
    mm().machine().unlocked(&mut || done = mm().swap_off(stops));
    let mut state = STATE.lock();
    state.area = state.area.filter(|_| done.is_err());
    if let Some(area) = &mut state.area {
        area.leaves = false;
    }
    Ok(done?)
}

/// The open disk.
pub struct Disk(());

impl Disk {
    /// open(2). EBUSY: with O_EXCL, as swap is on.
    pub fn open(flags: OpenFlags) -> Result<Disk> {
        let mut state = STATE.lock();
        if flags.contains(OpenFlags::EXCL) && state.area.is_some() {
            return Err(Errno::EBUSY);
        }
        state.open += 1;
        Ok(Disk(()))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        STATE.lock().open -= 1;
    }
}

impl FileOps for Disk {
    fn read(&self, at: At, sink: &mut Sink<'_>) -> Result<usize> {
        let Some(contents) = contents() else {
            return Ok(0);
        };
        sink.fill(|done, buffer| Ok(contents.read_at(at.position + done as u64, buffer)))
    }

    fn write(&self, at: At, source: &mut Source<'_>) -> Result<usize> {
        if source.left() == 0 {
            return Ok(0);
        }
        let left = size().saturating_sub(at.position);
        source.limit(source.left().min(left as usize));
        let contents = contents().filter(|_| left != 0).ok_or(Errno::ENOSPC)?;
        let mut position = at.position;
        source.drain(|bytes| {
            let written = contents.write_at(position, bytes);
            written.map_err(|_| Errno::ENOSPC)?;
            position += bytes.len() as u64;
            Ok(bytes.len())
        })
    }

    fn ioctl(&self, command: u32, argument: u64) -> Result<u64> {
        match command {
            BLKGETSIZE64 => UserPtr::from(argument).write(&size())?,
            BLKGETSIZE => UserPtr::from(argument).write(&(size() / SECTOR))?,
            BLKSSZGET | BLKPBSZGET => UserPtr::from(argument).write(&(PAGE_SIZE as u32))?,
            _ => return Err(Errno::ENOTTY),
        }
        Ok(0)
    }
}
