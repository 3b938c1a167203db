//! maps, smaps, smaps_rollup.

use super::dir::Subject;
use crate::errno::Result;
use crate::fs::inode::Device;
use crate::fs::pseudo::Text;
use crate::machine::{AddressSpace, Vma};
use alloc::format;
use alloc::string::String;
use mm::addr::{Order, PAGE_SHIFT, VirtAddr, VirtRange};
use mm::space::{FolioUse, Smaps};
use mm::thp::policy;
use mm::vma::{Backing, Prot, VmaFlags};

/// The name starts in this column.
const NAME_COLUMN: usize = 73;
/// KernelPageSize and MMUPageSize, kB.
const PAGE_KB: u64 = 4;

/// /proc/PID/maps.
pub fn maps(subject: &Subject, out: &mut Text) -> Result {
    if let Some(space) = subject.process.space() {
        let heap = space.heap();
        space.for_each_vma(&mut |vma| Line::new(vma, heap).write(out));
    }
    Ok(())
}

/// /proc/PID/smaps.
pub fn smaps(subject: &Subject, out: &mut Text) -> Result {
    if let Some(space) = subject.process.space() {
        let heap = space.heap();
        space.for_each_vma(&mut |vma| {
            // It may have gone since it was looked at.
            if let Some(figures) = space.smaps(vma.range.start) {
                entry(&Line::new(vma, heap), &figures, eligible(&space, vma), out);
            }
        });
    }
    Ok(())
}

/// Whether faults in the area may get large folios.
fn eligible(space: &AddressSpace, vma: &Vma) -> bool {
    let (advised, no_huge) = (
        vma.flags.contains(VmaFlags::HUGEPAGE),
        vma.flags.contains(VmaFlags::NOHUGEPAGE),
    );
    let controls = &space.mm().thp().controls;
    let orders = policy::allowed(controls, advised, no_huge, space.thp_disable());
    matches!(vma.backing, Backing::Anon) && !policy::fitting(vma.range, orders).is_empty()
}

fn entry(line: &Line, figures: &Smaps, eligible: bool, out: &mut Text) {
    line.write(out);
    kb(out, "Size", (line.end - line.start) >> 10);
    kb(out, "KernelPageSize", PAGE_KB);
    kb(out, "MMUPageSize", PAGE_KB);
    figures_of(figures, false, out);
    out.put(format_args!("THPeligible:    {:>8}\n", u8::from(eligible)));
    out.put(format_args!(
        "VmFlags: {}\n",
        flag_words(line.prot, line.flags)
    ));
}

/// /proc/PID/smaps_rollup: the sums.
pub fn rollup(subject: &Subject, out: &mut Text) -> Result {
    let Some(space) = subject.process.space() else {
        return Ok(());
    };
    let mut sum = Smaps::default();
    let mut all: Option<Line> = None;
    space.for_each_vma(&mut |vma| {
        if let Some(figures) = space.smaps(vma.range.start) {
            add(&mut sum, &figures);
        }
        let start = all.as_ref().map_or(vma.range.start, |all| all.start);
        all = Some(Line {
            start,
            end: vma.range.end,
            prot: Prot::empty(),
            flags: VmaFlags::empty(),
            offset: 0,
            id: (0, 0),
            name: "[rollup]".into(),
        });
    });
    if let Some(all) = all {
        all.write(out);
        figures_of(&sum, true, out);
    }
    Ok(())
}

/// What is shown of a mapping.
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

impl Line {
    fn new(vma: &Vma, heap: VirtRange) -> Line {
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
            _ if vma.range.start < heap.end && heap.start < vma.range.end => "[heap]".into(),
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
        let at = out.len();
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
            let blanks = NAME_COLUMN.saturating_sub(out.len() - at);
            out.put(format_args!("{:blanks$}{}", "", self.name));
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
    let blanks = 15usize.saturating_sub(name.len());
    out.put(format_args!(
        "{name}:{:blanks$}{value:>8} kB
",
        ""
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
    folios_of(&figures.folios, out);
}

/// `Folios-64kB: 12 1 12`, for each size: how many folios are mapped whole, how many in part, and how many of the whole ones
/// by contiguous entries (or one large one). Linux has no such lines.
fn folios_of(folios: &[FolioUse], out: &mut Text) {
    for (order, n) in (0..).map(Order).zip(folios) {
        let name = format!("Folios-{}kB:", order.bytes() >> 10);
        let (whole, part, contpte) = (n.whole, n.part, n.contpte);
        out.put(format_args!(
            "{name:<15} {whole:>8} {part:>8} {contpte:>8}\n"
        ));
    }
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
    for (sum, other) in sum.folios.iter_mut().zip(other.folios) {
        *sum += other;
    }
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
        (flags.contains(VmaFlags::SEQUENTIAL), "sr"),
        (flags.contains(VmaFlags::RANDOM), "rr"),
        (flags.contains(VmaFlags::DONTFORK), "dc"),
        (flags.contains(VmaFlags::LOCKONFAULT), "lf"),
        (flags.contains(VmaFlags::ACCOUNT), "ac"),
        (flags.contains(VmaFlags::NORESERVE), "nr"),
        (flags.contains(VmaFlags::WIPEONFORK), "wf"),
        (flags.contains(VmaFlags::DONTDUMP), "dd"),
        (!flags.contains(VmaFlags::TRACKED), "sd"),
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
