//! Areas as /proc/PID/maps shows them, which is also how smaps begins.

use crate::base::errno::Result;
use crate::base::machine::{AddressSpace, Vma};
use crate::fs::tree::inode::Device;
use alloc::sync::Arc;
use alloc::vec::Vec;
use mm::addr::{PAGE_SHIFT, VirtAddr, VirtRange};
use mm::vma::{Backing, MappedFile, Prot, VmaFlags};
use parts::text::Text;

/// The name starts in this column.
const NAME_COLUMN: usize = 73;
/// More than a line has without the name.
pub const LINE: usize = 128;
/// Shared anonymous memory is a file of the kernel's in Linux, and looks like one.
const SHARED_ANON: ((u64, u64), &[u8]) = ((1, 1), b"/dev/zero (deleted)");

/// Some areas as they are shown: what of them lies at or above where those before ended, so that
/// no two overlap, however the areas have changed meanwhile (proc(5)).
pub struct Areas {
    pub vmas: Vec<Vma>,
    heap: VirtRange,
}

impl Areas {
    /// The first ones that end above `from`, `most` at the most. ENOMEM.
    pub fn from(space: &AddressSpace, from: u64, most: usize) -> Result<Areas> {
        let mut areas = Areas::whole(space, from, most)?;
        if let Some(first) = areas.vmas.first_mut()
            && first.range.start.0 < from
        {
            first.cut_below(VirtAddr(from));
        }
        Ok(areas)
    }

    /// The same, also with what lies below `from`. ENOMEM.
    pub fn whole(space: &AddressSpace, from: u64, most: usize) -> Result<Areas> {
        let mut vmas = Vec::new();
        fallible::reserve_exact(&mut vmas, most)?;
        space.vmas_from(VirtAddr(from), &mut vmas);
        let heap = space.heap();
        Ok(Areas { vmas, heap })
    }

    /// Where the last one ends.
    pub fn end(&self) -> Option<u64> {
        self.vmas.last().map(|vma| vma.range.end.0)
    }

    /// Appends an area's line of maps. ENOMEM.
    #[inline]
    pub fn line(&self, vma: &Vma, out: &mut Text) -> Result {
        let start = out.len();
        out.make_room(LINE)?;
        let special = self.special_name(vma);
        range_and_rights(out, vma);
        match &vma.backing {
            Backing::Anon => {
                out.bytes(NO_FILE);
                if let Some(name) = special {
                    put_name(out, start, name);
                }
            }
            Backing::Object { offset, file, .. } => {
                put_file(out, &FilePart::of(*offset, file));
                let path = match file {
                    Some(file) if special.is_none() => Some(file.path()),
                    _ => None,
                };
                let path = path.as_ref().map_or(SHARED_ANON.1, |path| path.as_bytes());
                // A newline takes four bytes.
                out.make_room(NAME_COLUMN + 4 * path.len() + 1)?;
                put_name(out, start, special.unwrap_or(path));
            }
        }
        out.byte(b'\n');
        Ok(())
    }

    /// Calls `f` with the area's name; empty if it has none.
    pub fn with_name<R>(&self, vma: &Vma, f: impl FnOnce(&[u8]) -> R) -> R {
        match (self.special_name(vma), &vma.backing) {
            (Some(name), _) => f(name),
            (None, Backing::Anon) => f(b""),
            (None, Backing::Object { file: None, .. }) => f(SHARED_ANON.1),
            (
                None,
                Backing::Object {
                    file: Some(file), ..
                },
            ) => f(file.path().as_bytes()),
        }
    }

    fn special_name(&self, vma: &Vma) -> Option<&'static [u8]> {
        if vma.range.start < self.heap.end && self.heap.start < vma.range.end {
            return Some(b"[heap]");
        }
        let stack = vma.flags.contains(VmaFlags::STACK);
        stack.then_some(b"[stack]")
    }
}

/// Appends `START-END rwxp `.
#[inline]
fn range_and_rights(out: &mut Text, vma: &Vma) {
    out.hex(vma.range.start.0, 8);
    out.byte(b'-');
    out.hex(vma.range.end.0, 8);
    let mut rights = RIGHTS[usize::from(vma.prot.bits() & Prot::RIGHTS.bits())];
    if vma.flags.contains(VmaFlags::SHARED) {
        rights[4] = b's';
    }
    out.first(rights.len(), rights);
}

/// The rights of a private area by the bits of its protection, with a blank around them.
static RIGHTS: [[u8; 6]; 8] = [
    *b" ---p ", *b" r--p ", *b" -w-p ", *b" rw-p ", *b" --xp ", *b" r-xp ", *b" -wxp ", *b" rwxp ",
];
const _: () = assert!(Prot::READ.bits() == 1 && Prot::WRITE.bits() == 2 && Prot::EXEC.bits() == 4);

/// `OFFSET MAJOR:MINOR INODE ` of memory that no file has.
const NO_FILE: &[u8; 17] = b"00000000 00:00 0 ";

/// A part of a file, as maps names it.
pub struct FilePart {
    /// In bytes.
    pub offset: u64,
    /// st_dev.
    pub device: u64,
    pub inode: u64,
}

impl FilePart {
    /// From a page of a file, or of shared anonymous memory, on.
    pub fn of(page: u64, file: &Option<Arc<dyn MappedFile>>) -> FilePart {
        let id = file.as_ref().map_or(SHARED_ANON.0, |file| file.id());
        FilePart {
            offset: page << PAGE_SHIFT,
            device: id.0,
            inode: id.1,
        }
    }
}

/// Appends `OFFSET MAJOR:MINOR INODE `.
fn put_file(out: &mut Text, part: &FilePart) {
    let device = Device::decode(part.device);
    out.hex(part.offset, 8);
    out.byte(b' ');
    out.hex(device.0.into(), 2);
    out.byte(b':');
    out.hex(device.1.into(), 2);
    out.byte(b' ');
    out.decimal(part.inode);
    out.byte(b' ');
}

/// Appends the line of maps of an area without a file. Room for [`LINE`] and the name was made.
pub fn named_line(out: &mut Text, vma: &Vma, name: &[u8]) {
    let start = out.len();
    range_and_rights(out, vma);
    out.bytes(NO_FILE);
    put_name(out, start, name);
    out.byte(b'\n');
}

/// Puts a name into its column of the line that began at `start`. A newline in it would make a line
/// of its own.
fn put_name(out: &mut Text, start: usize, name: &[u8]) {
    out.pad(start, NAME_COLUMN);
    for (index, part) in name.split(|byte| *byte == b'\n').enumerate() {
        if index > 0 {
            out.bytes(b"\\012");
        }
        out.bytes(part);
    }
}
