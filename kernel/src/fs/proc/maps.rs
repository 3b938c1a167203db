//! maps, smaps, smaps_rollup.

use super::dir::Subject;
use crate::errno::Result;
use crate::fs::inode::Device;
use crate::fs::pseudo::Text;
use crate::machine::{AddressSpace, Vma};
use alloc::string::String;
use alloc::vec::Vec;
use mm::addr::{PAGE_SHIFT, VirtAddr};
use mm::space::Smaps;
use mm::vma::{Backing, Prot, VmaFlags};

/// The name starts in this column.
const NAME_COLUMN: usize = 73;
/// KernelPageSize and MMUPageSize, kB.
const PAGE_KB: u64 = 4;

/// /proc/PID/maps.
pub fn maps(subject: &Subject, out: &mut Text) -> Result {
    if let Some(space) = subject.process.space() {
        for line in vmas(&space) {
            line.write(out);
        }
    }
    Ok(())
}

/// /proc/PID/smaps.
pub fn smaps(subject: &Subject, out: &mut Text) -> Result {
    if let Some(space) = subject.process.space() {
        for line in vmas(&space) {
            // Mappings may have changed since the list was made.
            let Some(figures) = space.smaps(line.start) else {
                continue;
            };
            line.write(out);
            kb(out, "Size", (line.end - line.start) >> 10);
            kb(out, "KernelPageSize", PAGE_KB);
            kb(out, "MMUPageSize", PAGE_KB);
            figures_of(&figures, false, out);
            out.put(format_args!("THPeligible:    {:>8}\n", 0));
            out.put(format_args!(
                "VmFlags: {}\n",
                flag_words(line.prot, line.flags)
            ));
        }
    }
    Ok(())
}

/// /proc/PID/smaps_rollup: the sums.
pub fn rollup(subject: &Subject, out: &mut Text) -> Result {
    let Some(space) = subject.process.space() else {
        return Ok(());
    };
    let lines = vmas(&space);
    let (Some(first), Some(last)) = (lines.first(), lines.last()) else {
        return Ok(());
    };
    let all = Line {
        start: first.start,
        end: last.end,
        prot: Prot::empty(),
        flags: VmaFlags::empty(),
        offset: 0,
        id: (0, 0),
        name: "[rollup]".into(),
    };
    let mut sum = Smaps::default();
    for figures in lines.iter().filter_map(|line| space.smaps(line.start)) {
        add(&mut sum, &figures);
    }
    all.write(out);
    figures_of(&sum, true, out);
    Ok(())
}

/// What is shown of a mapping, copied out so that no lock is held while it is formatted.
struct Line {
    start: VirtAddr,
    end: VirtAddr,
    prot: Prot,
    flags: VmaFlags,
    /// Bytes.
    offset: u64,
    /// Device and inode.
    id: (u64, u64),
    name: String,
}

fn vmas(space: &AddressSpace) -> Vec<Line> {
    let mut copies = Vec::new();
    space.for_each_vma(&mut |vma| copies.push(vma.clone()));
    copies.iter().map(Line::new).collect()
}

impl Line {
    fn new(vma: &Vma) -> Line {
        let (offset, id, name) = match &vma.backing {
            Backing::Object {
                offset,
                file: Some(file),
                ..
            } => (offset << PAGE_SHIFT, file.id(), escape(&file.path())),
            // Shared anonymous memory is a file of the kernel's in Linux, and looks like one.
            Backing::Object {
                offset, file: None, ..
            } => (offset << PAGE_SHIFT, (1, 1), "/dev/zero (deleted)".into()),
            Backing::Anon => (0, (0, 0), String::new()),
        };
        let name = match vma.flags {
            flags if flags.contains(VmaFlags::HEAP) => "[heap]".into(),
            flags if flags.contains(VmaFlags::STACK) => "[stack]".into(),
            _ => name,
        };
        let range = vma.range;
        Line {
            start: range.start,
            end: range.end,
            prot: vma.prot,
            flags: vma.flags,
            offset,
            id,
            name,
        }
    }

    fn write(&self, out: &mut Text) {
        let at = out.0.len();
        let letter = |has: bool, letter: char| if has { letter } else { '-' };
        let device = Device::decode(self.id.0);
        out.put(format_args!(
            "{:08x}-{:08x} {}{}{}{} {:08x} {:02x}:{:02x} {} ",
            self.start.0,
            self.end.0,
            letter(self.prot.contains(Prot::READ), 'r'),
            letter(self.prot.contains(Prot::WRITE), 'w'),
            letter(self.prot.contains(Prot::EXEC), 'x'),
            if self.flags.contains(VmaFlags::SHARED) {
                's'
            } else {
                'p'
            },
            self.offset,
            device.0,
            device.1,
            self.id.1,
        ));
        if !self.name.is_empty() {
            let width = (out.0.len() - at).max(NAME_COLUMN);
            out.0.resize(at + width, b' ');
            out.put(format_args!("{}", self.name));
        }
        out.line("");
    }
}

/// A newline in a name would make a line of its own.
fn escape(path: &str) -> String {
    path.replace('\n', "\\012")
}

/// One line of figures: name and value in fixed columns.
fn kb(out: &mut Text, name: &str, value: u64) {
    out.put(format_args!(
        "{:<16}{value:>8} kB\n",
        alloc::format!("{name}:")
    ));
}

fn figures_of(figures: &Smaps, rollup: bool, out: &mut Text) {
    let file_pss = if figures.anonymous == 0 {
        figures.pss
    } else {
        0
    };
    kb(out, "Rss", figures.rss >> 10);
    kb(out, "Pss", figures.pss >> 10);
    kb(out, "Pss_Dirty", figures.pss_dirty >> 10);
    if rollup {
        kb(out, "Pss_Anon", (figures.pss - file_pss) >> 10);
        kb(out, "Pss_File", file_pss >> 10);
        kb(out, "Pss_Shmem", 0);
    }
    kb(out, "Shared_Clean", figures.shared_clean >> 10);
    kb(out, "Shared_Dirty", figures.shared_dirty >> 10);
    kb(out, "Private_Clean", figures.private_clean >> 10);
    kb(out, "Private_Dirty", figures.private_dirty >> 10);
    kb(out, "Referenced", figures.referenced >> 10);
    kb(out, "Anonymous", figures.anonymous >> 10);
    kb(out, "KSM", 0);
    kb(out, "LazyFree", figures.lazy_free >> 10);
    kb(out, "AnonHugePages", figures.anon_huge >> 10);
    for name in [
        "ShmemPmdMapped",
        "FilePmdMapped",
        "Shared_Hugetlb",
        "Private_Hugetlb",
        "Swap",
        "SwapPss",
    ] {
        kb(out, name, 0);
    }
    kb(out, "Locked", figures.locked >> 10);
}

fn add(sum: &mut Smaps, other: &Smaps) {
    sum.rss += other.rss;
    sum.pss += other.pss;
    sum.pss_dirty += other.pss_dirty;
    sum.shared_clean += other.shared_clean;
    sum.shared_dirty += other.shared_dirty;
    sum.private_clean += other.private_clean;
    sum.private_dirty += other.private_dirty;
    sum.referenced += other.referenced;
    sum.anonymous += other.anonymous;
    sum.lazy_free += other.lazy_free;
    sum.anon_huge += other.anon_huge;
    sum.locked += other.locked;
}

/// VmFlags: two letters each, in the order of Linux's bits.
fn flag_words(prot: Prot, flags: VmaFlags) -> String {
    let shared = flags.contains(VmaFlags::SHARED);
    let may_write = !flags.contains(VmaFlags::NO_MAYWRITE);
    let words = [
        (prot.contains(Prot::READ), "rd"),
        (prot.contains(Prot::WRITE), "wr"),
        (prot.contains(Prot::EXEC), "ex"),
        // A shared mapping of a file that cannot be written counts as private, as in Linux.
        (shared && may_write, "sh"),
        (true, "mr"),
        (may_write, "mw"),
        (true, "me"),
        (shared, "ms"),
        (
            flags.intersects(VmaFlags::GROWSDOWN | VmaFlags::STACK),
            "gd",
        ),
        (flags.contains(VmaFlags::LOCKED), "lo"),
        (flags.contains(VmaFlags::DONTFORK), "dc"),
        (
            !shared && prot.contains(Prot::WRITE) && !flags.contains(VmaFlags::NORESERVE),
            "ac",
        ),
        (flags.contains(VmaFlags::NORESERVE), "nr"),
        (flags.contains(VmaFlags::WIPEONFORK), "wf"),
        (flags.contains(VmaFlags::DONTDUMP), "dd"),
        (flags.contains(VmaFlags::HUGEPAGE), "hg"),
        (flags.contains(VmaFlags::NOHUGEPAGE), "nh"),
    ];
    let mut text = String::new();
    for (_, word) in words.into_iter().filter(|(set, _)| *set) {
        text.push_str(word);
        text.push(' ');
    }
    text
}
