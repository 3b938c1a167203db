//! mremap by size: what one call costs with entries of each level, from 2 MiB to 4 GiB.
//!
//! The region and the place that it goes to are aligned to its size, 1 GiB at most, and nothing is mapped there before. Every
//! page is there, as far as memory goes; of a larger region one folio in each 2 MiB is, and the line says `"sparse":true`.
use crate::meter::{Meter, Sample};
use crate::region::{HUGE, wrong};
use userland::sys::Result;
use userland::sys::mem::{self, ANON, PAGE, RW};

/// MiB.
const SIZES: [usize; 7] = [2, 16, 64, 256, 1024, 2048, 4096];
/// On Quire; elsewhere there is one way.
const SWITCH: &str = "/sys/kernel/mm/quire/move";
const LEVELS: [&str; 3] = ["pte", "pmd", "pud"];

/// One measurement: the level, MiB, whether the region is sparse, and what the call cost.
pub struct Moved {
    pub level: &'static str,
    pub mib: usize,
    pub sparse: bool,
    pub sample: Sample,
}

/// Moves regions of each size there and back, once for each level.
pub fn run(meter: &mut Meter, folio_kb: usize) -> Result<Vec<Moved>> {
    let before = std::fs::read_to_string(SWITCH).ok();
    let levels = if before.is_some() { &LEVELS[..] } else { &LEVELS[2..] };
    let mut all = Vec::new();
    for mib in SIZES {
        let area = Area::new(mib << 20, folio_kb << 10)?;
        for level in levels {
            set(before.is_some(), level)?;
            let sample = meter.timed(0, || area.go(area.from, area.to))?;
            area.check(area.to)?;
            area.go(area.to, area.from)?;
            let (level, sparse) = (*level, area.step != area.folio);
            all.push(Moved { level, mib, sparse, sample });
        }
    }
    set(before.is_some(), LEVELS[2])?;
    Ok(all)
}

fn set(there: bool, level: &str) -> Result<()> {
    if there {
        std::fs::write(SWITCH, level)?;
    }
    Ok(())
}

/// Memory, and an equal range of nothing behind it.
struct Area {
    all: (usize, usize),
    from: usize,
    to: usize,
    len: usize,
    folio: usize,
    /// Bytes from one folio that is there to the next.
    step: usize,
}

impl Area {
    fn new(len: usize, folio: usize) -> Result<Area> {
        let align = len.min(1 << 30);
        let size = 2 * len + align;
        let at = mem::mmap(0, size, libc::PROT_NONE, ANON | libc::MAP_NORESERVE, -1, 0)?;
        let from = at.next_multiple_of(align);
        let to = from + len;
        // Only what is to be moved stays.
        mem::munmap(at, size)?;
        mem::mmap(from, len, RW, ANON | libc::MAP_NORESERVE | libc::MAP_FIXED, -1, 0)?;
        let step = if len < free()? { folio } else { HUGE };
        let area = Area { all: (at, size), from, to, len, folio, step };
        for start in (from..to).step_by(step) {
            mem::store_addresses(start, start + folio);
        }
        Ok(area)
    }

    /// One mremap.
    fn go(&self, from: usize, to: usize) -> Result<()> {
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        mem::mremap(from, self.len, self.len, flags, to).map(|_| ())
    }

    /// Each page that was touched is at the other place.
    fn check(&self, to: usize) -> Result<()> {
        for start in (0..self.len).step_by(self.step) {
            for offset in (start..start + self.folio).step_by(PAGE) {
                if mem::load(to + offset) != (self.from + offset) as u64 {
                    return Err(wrong(&format!("page {} was lost", offset / PAGE)));
                }
            }
        }
        Ok(())
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        let _ = mem::munmap(self.all.0, self.all.1);
    }
}

/// Bytes of memory that are free, less some for page tables.
fn free() -> Result<usize> {
    let text = std::fs::read_to_string("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemFree:"));
    let kb = line.and_then(|rest| rest.trim().strip_suffix(" kB")?.trim().parse::<usize>().ok());
    Ok(kb.unwrap_or(0) / 100 * 98 << 10)
}
