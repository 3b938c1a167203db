//! A region and the place that it goes to.
use userland::counters::{Missing, figure};
use userland::sys::mem::{self, ANON, PAGE, RW};
use userland::sys::{Errno, Result};

/// What a PMD entry covers, a PUD entry, and a PGD entry.
const HUGE: usize = 2 << 20;
const GIB: usize = 1 << 30;
const PGD: usize = 512 * GIB;

/// Where nothing is on any machine, and no kernel puts something by itself: 16 TiB.
const BASE: usize = 1 << 44;

/// Memory, and an equal range of nothing behind it; both begin at a multiple of their size, of 512
/// GiB at most.
pub struct Area {
    pub from: usize,
    pub to: usize,
    len: usize,
    folio: usize,
    /// Bytes from one folio that is there to the next.
    step: usize,
}

impl Area {
    /// Memory in folios of so many bytes; all of it is there, or one folio in each 2 MiB when there
    /// is not enough, or in each GiB.
    pub fn new(len: usize, folio: usize) -> Result<Area> {
        let flags = ANON | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
        let (from, to) = (BASE, BASE + len);
        mem::mmap(from, len, RW, flags, -1, 0)?;
        let step = match len {
            PGD.. => GIB,
            _ if len < free()? => folio,
            _ => HUGE,
        };
        let area = Area {
            from,
            to,
            len,
            folio,
            step,
        };
        for start in (from..to).step_by(step) {
            mem::store_addresses(start, start + folio);
        }
        Ok(area)
    }

    /// Whether most of it is not there.
    pub fn sparse(&self) -> bool {
        self.step > self.folio
    }

    /// One mremap.
    pub fn go(&self, from: usize, to: usize) -> Result<()> {
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        mem::mremap(from, self.len, self.len, flags, to).map(|_| ())
    }

    /// Each page that was touched is at the other place.
    pub fn check(&self, to: usize) -> Result<()> {
        for start in (0..self.len).step_by(self.step) {
            for offset in (start..start + self.folio).step_by(PAGE) {
                if mem::load(to + offset) != (self.from + offset) as u64 {
                    eprintln!("moves: page {} was lost", offset / PAGE);
                    return Err(Errno(libc::EIO));
                }
            }
        }
        Ok(())
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // It is at one of the two.
        let _ = mem::munmap(self.from, 2 * self.len);
    }
}

/// Bytes of memory that are free, less some for page tables.
fn free() -> Result<usize> {
    let kb = figure("/proc/meminfo", "MemFree").map_err(Missing::say)?;
    Ok((kb as usize / 100 * 98) << 10)
}
