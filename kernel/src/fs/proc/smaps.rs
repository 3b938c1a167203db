//! smaps, smaps_rollup.

use super::dir::Subject;
use super::maps::{Area, LINE, head, put_name};
use super::observed::Observed;
use crate::errno::{Errno, Result};
use crate::fs::file::FileOps;
use crate::fs::records::{RecordFile, Records};
use crate::machine::{AddressSpace, Vma};
use crate::thp::spaces;
use alloc::sync::Arc;
use alloc::vec::Vec;
use mm::addr::VirtRange;
use mm::space::{FOLIO_ORDERS, Smaps};
use mm::thp::policy;
use mm::vma::{Backing, Prot, VmaFlags};
use vfs_parts::form::Form;

/// What areas and their sum have in common. `Folios-64kB: 12 1 12`: how many folios of this size
/// are mapped whole, how many in part, and how many of the whole ones by contiguous entries (or one
/// large one); Linux has no such lines.
macro_rules! common {
    () => {
        "\
Shared_Clean:   @@@@@@@@ kB
Shared_Dirty:   @@@@@@@@ kB
Private_Clean:  @@@@@@@@ kB
Private_Dirty:  @@@@@@@@ kB
Referenced:     @@@@@@@@ kB
Anonymous:      @@@@@@@@ kB
KSM:                   0 kB
LazyFree:       @@@@@@@@ kB
AnonHugePages:  @@@@@@@@ kB
ShmemPmdMapped:        0 kB
FilePmdMapped:         0 kB
Shared_Hugetlb:        0 kB
Private_Hugetlb:       0 kB
Swap:                  0 kB
SwapPss:               0 kB
Locked:         @@@@@@@@ kB
Folios-4kB:     @@@@@@@@ @@@@@@@@ @@@@@@@@
Folios-8kB:     @@@@@@@@ @@@@@@@@ @@@@@@@@
Folios-16kB:    @@@@@@@@ @@@@@@@@ @@@@@@@@
Folios-32kB:    @@@@@@@@ @@@@@@@@ @@@@@@@@
Folios-64kB:    @@@@@@@@ @@@@@@@@ @@@@@@@@
Folios-128kB:   @@@@@@@@ @@@@@@@@ @@@@@@@@
Folios-256kB:   @@@@@@@@ @@@@@@@@ @@@@@@@@
Folios-512kB:   @@@@@@@@ @@@@@@@@ @@@@@@@@
Folios-1024kB:  @@@@@@@@ @@@@@@@@ @@@@@@@@
Folios-2048kB:  @@@@@@@@ @@@@@@@@ @@@@@@@@
"
    };
}

/// What follows an area's line of maps.
const AREA: &str = concat!(
    "\
Size:           @@@@@@@@ kB
KernelPageSize:        4 kB
MMUPageSize:           4 kB
Rss:            @@@@@@@@ kB
Pss:            @@@@@@@@ kB
Pss_Dirty:      @@@@@@@@ kB
",
    common!(),
    "\
THPeligible:    @@@@@@@@
VmFlags: "
);

/// The sums over all areas.
const ROLLUP: &str = concat!(
    "\
Rss:            @@@@@@@@ kB
Pss:            @@@@@@@@ kB
Pss_Dirty:      @@@@@@@@ kB
Pss_Anon:       @@@@@@@@ kB
Pss_File:       @@@@@@@@ kB
Pss_Shmem:             0 kB
",
    common!()
);

/// Numbers of the lines about folios.
const FOLIOS: usize = 3 * FOLIO_ORDERS;
/// Of the others.
const AREA_NUMBERS: usize = 14;
const ROLLUP_NUMBERS: usize = 14;

static AREA_FORM: Form<{ AREA.len() }, { AREA_NUMBERS + FOLIOS }> = Form::new(AREA);
static ROLLUP_FORM: Form<{ ROLLUP.len() }, { ROLLUP_NUMBERS + FOLIOS }> = Form::new(ROLLUP);

struct SmapsFile(Observed);

/// Opens /proc/PID/smaps.
pub fn open_smaps(subject: &Subject) -> Result<Arc<dyn FileOps>> {
    let smaps = SmapsFile(Observed::new(subject));
    Ok(Arc::new(RecordFile::new(smaps)))
}

impl Records for SmapsFile {
    fn record(&self, from: u64, out: &mut Vec<u8>) -> Result<Option<u64>> {
        self.0.check_process()?;
        let Some(space) = self.0.space() else {
            return Ok(None);
        };
        let area = Area::from(&space, from);
        drop(space);
        let Some(area) = area else { return Ok(None) };
        let Some(figures) = spaces::figures(self.0.weak(), &area.vma)? else {
            return Ok(None);
        };
        area.line(out)?;
        let more = AREA.len() + FLAG_WORDS.len() * 3 + LINE;
        fallible::reserve(out, more)?;
        let eligible = self
            .0
            .space()
            .is_some_and(|space| eligible(&space, &area.vma));
        AREA_FORM.fill(out, &area_numbers(&area.vma, &figures, eligible));
        flag_words(out, area.vma.prot, area.vma.flags);
        out.push(b'\n');
        Ok(Some(area.vma.range.end.0))
    }
}

/// Whether faults in the area may get large folios.
fn eligible(space: &AddressSpace, vma: &Vma) -> bool {
    if !matches!(vma.backing, Backing::Anon) {
        return false;
    }
    let (advised, no_huge) = (
        vma.flags.contains(VmaFlags::HUGEPAGE),
        vma.flags.contains(VmaFlags::NOHUGEPAGE),
    );
    let controls = &space.mm().thp().controls;
    let orders = policy::allowed(controls, advised, no_huge, space.thp_disable());
    !policy::fitting(vma.range, orders).is_empty()
}

/// The numbers of [`AREA`], in kB where it says so.
fn area_numbers(vma: &Vma, f: &Smaps, eligible: bool) -> [u64; AREA_NUMBERS + FOLIOS] {
    let mut numbers = [0; AREA_NUMBERS + FOLIOS];
    let bytes = [
        vma.range.len(),
        f.rss,
        f.pss,
        f.pss_dirty,
        f.shared_clean,
        f.shared_dirty,
        f.private_clean,
        f.private_dirty,
        f.referenced,
        f.anonymous,
        f.lazy_free,
        f.anon_huge,
        f.locked,
    ];
    for (number, bytes) in numbers.iter_mut().zip(bytes) {
        *number = bytes >> 10;
    }
    folio_numbers(f, &mut numbers[bytes.len()..]);
    numbers[AREA_NUMBERS + FOLIOS - 1] = eligible.into();
    numbers
}

fn folio_numbers(figures: &Smaps, into: &mut [u64]) {
    for (into, n) in into.chunks_exact_mut(3).zip(&figures.folios) {
        into.copy_from_slice(&[n.whole, n.part, n.contpte]);
    }
}

/// The words of VmFlags in the order of Linux's bits.
const FLAG_WORDS: [&[u8; 3]; 21] = [
    b"rd ", b"wr ", b"ex ", b"sh ", b"mr ", b"mw ", b"me ", b"ms ", b"gd ", b"lo ", b"sr ", b"rr ",
    b"dc ", b"lf ", b"ac ", b"nr ", b"wf ", b"dd ", b"sd ", b"hg ", b"nh ",
];

fn flag_words(out: &mut Vec<u8>, prot: Prot, flags: VmaFlags) {
    let shared = flags.contains(VmaFlags::SHARED);
    let may_write = !flags.contains(VmaFlags::NO_MAYWRITE);
    let set = [
        prot.contains(Prot::READ),
        prot.contains(Prot::WRITE),
        prot.contains(Prot::EXEC),
        // A shared mapping of a file that cannot be written counts as private, as in Linux.
        shared && may_write,
        true,
        may_write,
        true,
        shared,
        flags.intersects(VmaFlags::GROWSDOWN | VmaFlags::STACK),
        flags.contains(VmaFlags::LOCKED),
        flags.contains(VmaFlags::SEQUENTIAL),
        flags.contains(VmaFlags::RANDOM),
        flags.contains(VmaFlags::DONTFORK),
        flags.contains(VmaFlags::LOCKONFAULT),
        flags.contains(VmaFlags::ACCOUNT),
        flags.contains(VmaFlags::NORESERVE),
        flags.contains(VmaFlags::WIPEONFORK),
        flags.contains(VmaFlags::DONTDUMP),
        !flags.contains(VmaFlags::TRACKED),
        flags.contains(VmaFlags::HUGEPAGE),
        flags.contains(VmaFlags::NOHUGEPAGE),
    ];
    let bits = set.iter().enumerate();
    let mut left = bits.fold(0u32, |bits, (n, set)| bits | u32::from(*set) << n);
    while left != 0 {
        out.extend_from_slice(FLAG_WORDS[left.trailing_zeros() as usize]);
        left &= left - 1;
    }
}

struct Rollup(Observed);

/// Opens /proc/PID/smaps_rollup: the sums.
pub fn open_rollup(subject: &Subject) -> Result<Arc<dyn FileOps>> {
    let rollup = Rollup(Observed::new(subject));
    Ok(Arc::new(RecordFile::new(rollup)))
}

impl Records for Rollup {
    /// The one record. ESRCH once the process has ended.
    fn record(&self, from: u64, out: &mut Vec<u8>) -> Result<Option<u64>> {
        if from != 0 {
            return Ok(None);
        }
        self.0.space().ok_or(Errno::ESRCH)?;
        let (mut sum, mut covered) = (Smaps::default(), None::<VirtRange>);
        spaces::each_area(self.0.weak(), |vma, figures| {
            add(&mut sum, figures);
            let start = covered.map_or(vma.range.start, |range| range.start);
            covered = Some(VirtRange::new(start, vma.range.end));
        })?;
        let Some(range) = covered else {
            return Ok(None);
        };
        let start = out.len();
        fallible::reserve(out, 2 * LINE + ROLLUP.len() + FOLIOS)?;
        let all = Vma::new(range, Prot::empty(), VmaFlags::empty(), Backing::Anon);
        head(out, &all, 0, (0, 0));
        put_name(out, start, b"[rollup]");
        out.push(b'\n');
        ROLLUP_FORM.fill(out, &rollup_numbers(&sum));
        Ok(Some(u64::MAX))
    }
}

fn rollup_numbers(f: &Smaps) -> [u64; ROLLUP_NUMBERS + FOLIOS] {
    let file = if f.anonymous == 0 { f.pss } else { 0 };
    let mut numbers = [0; ROLLUP_NUMBERS + FOLIOS];
    let bytes = [
        f.rss,
        f.pss,
        f.pss_dirty,
        f.pss - file,
        file,
        f.shared_clean,
        f.shared_dirty,
        f.private_clean,
        f.private_dirty,
        f.referenced,
        f.anonymous,
        f.lazy_free,
        f.anon_huge,
        f.locked,
    ];
    for (number, bytes) in numbers.iter_mut().zip(bytes) {
        *number = bytes >> 10;
    }
    folio_numbers(f, &mut numbers[bytes.len()..]);
    numbers
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
