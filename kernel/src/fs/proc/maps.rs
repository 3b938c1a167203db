//! maps, and the first lines of smaps.

use super::dir::Subject;
use super::observed::Observed;
use crate::errno::Result;
use crate::fs::file::FileOps;
use crate::fs::inode::Device;
use crate::fs::records::{RecordFile, Records};
use crate::machine::{AddressSpace, Vma};
use alloc::sync::Arc;
use alloc::vec::Vec;
use mm::addr::{PAGE_SHIFT, VirtAddr, VirtRange};
use mm::vma::{Backing, Prot, VmaFlags};
use vfs_parts::digits::{decimal, hex};

/// The name starts in this column.
const NAME_COLUMN: usize = 73;
/// More than a line has without the name.
pub const LINE: usize = 128;
/// Shared anonymous memory is a file of the kernel's in Linux, and looks like one.
const SHARED_ANON: ((u64, u64), &[u8]) = ((1, 1), b"/dev/zero (deleted)");

struct Maps(Observed);

/// Opens /proc/PID/maps.
pub fn open_maps(subject: &Subject) -> Result<Arc<dyn FileOps>> {
    let maps = Maps(Observed::new(subject));
    Ok(Arc::new(RecordFile::new(maps)))
}

impl Records for Maps {
    fn record(&self, from: u64, out: &mut Vec<u8>) -> Result<Option<u64>> {
        self.0.check_process()?;
        let area = self.0.space().and_then(|space| Area::from(&space, from));
        let Some(area) = area else { return Ok(None) };
        area.line(out)?;
        Ok(Some(area.vma.range.end.0))
    }
}

/// An area as it is shown: what of it lies at or above where the one before ended, so that no two
/// overlap, however the areas have changed meanwhile (proc(5)).
pub struct Area {
    pub vma: Vma,
    pub heap: VirtRange,
}

impl Area {
    /// The first one that ends above `from`.
    pub fn from(space: &AddressSpace, from: u64) -> Option<Area> {
        let mut vma = space.vma_from(VirtAddr(from))?;
        if vma.range.start.0 < from {
            vma.cut_below(VirtAddr(from));
        }
        let heap = space.heap();
        Some(Area { vma, heap })
    }

    /// Appends the line of maps. ENOMEM.
    pub fn line(&self, out: &mut Vec<u8>) -> Result {
        let start = out.len();
        fallible::reserve(out, LINE)?;
        let special = self.special_name();
        match &self.vma.backing {
            Backing::Anon => {
                head(out, &self.vma, 0, (0, 0));
                if let Some(name) = special {
                    put_name(out, start, name);
                }
            }
            Backing::Object { offset, file, .. } => {
                let id = file.as_ref().map_or(SHARED_ANON.0, |file| file.id());
                head(out, &self.vma, offset << PAGE_SHIFT, id);
                let path = match file {
                    Some(file) if special.is_none() => Some(file.path()),
                    _ => None,
                };
                let path = path.as_ref().map_or(SHARED_ANON.1, |path| path.as_bytes());
                // A newline takes four bytes.
                fallible::reserve(out, NAME_COLUMN + 4 * path.len() + 1)?;
                put_name(out, start, special.unwrap_or(path));
            }
        }
        out.push(b'\n');
        Ok(())
    }

    fn special_name(&self) -> Option<&'static [u8]> {
        let range = self.vma.range;
        if range.start < self.heap.end && self.heap.start < range.end {
            return Some(b"[heap]");
        }
        let stack = self.vma.flags.contains(VmaFlags::STACK);
        stack.then_some(b"[stack]")
    }
}

/// `START-END rwxp OFFSET MAJOR:MINOR INODE `, `offset` in bytes, `id` the file's device and inode.
pub fn head(out: &mut Vec<u8>, vma: &Vma, offset: u64, id: (u64, u64)) {
    hex(out, vma.range.start.0, 8);
    out.push(b'-');
    hex(out, vma.range.end.0, 8);
    let letter = |has: bool, letter: u8| if has { letter } else { b'-' };
    let shared = vma.flags.contains(VmaFlags::SHARED);
    out.extend_from_slice(&[
        b' ',
        letter(vma.prot.contains(Prot::READ), b'r'),
        letter(vma.prot.contains(Prot::WRITE), b'w'),
        letter(vma.prot.contains(Prot::EXEC), b'x'),
        if shared { b's' } else { b'p' },
        b' ',
    ]);
    let (device, inode) = id;
    let device = Device::decode(device);
    hex(out, offset, 8);
    out.push(b' ');
    hex(out, device.0.into(), 2);
    out.push(b':');
    hex(out, device.1.into(), 2);
    out.push(b' ');
    decimal(out, inode);
    out.push(b' ');
}

/// Puts a name into its column of the line that began at `start`. A newline in it would make a line
/// of its own.
pub fn put_name(out: &mut Vec<u8>, start: usize, name: &[u8]) {
    let column = out.len().max(start + NAME_COLUMN);
    out.resize(column, b' ');
    for (index, part) in name.split(|byte| *byte == b'\n').enumerate() {
        if index > 0 {
            out.extend_from_slice(b"\\012");
        }
        out.extend_from_slice(part);
    }
}
