//! /proc/PID/smaps and smaps_rollup.

use super::areas::{Areas, LINE, named_line};
use super::observed::Observed;
use super::subject::Subject;
use crate::base::errno::{Errno, Result};
use crate::base::machine::{AddressSpace, Vma};
use crate::fs::kinds::records::{RecordFile, Records};
use crate::fs::open::ops::FileOps;
use crate::thp::spaces;
use alloc::sync::Arc;
use mm::addr::VirtRange;
use mm::arch::Machine;
use mm::thp::policy::{self, Orders};
use mm::vma::{Backing, Prot, VmaFlags};
use mm::{FOLIO_ORDERS, Smaps, SmapsWalk};
use parts::form::Form;
use parts::text::Text;

/// How many numbers a record has in kB before those that an area and the sum of all have in common.
const AREA: usize = 4;
const ROLLUP: usize = 5;
/// And how many of those.
const COMMON: usize = 9;
/// Numbers that areas of huge pages have besides: sizes of pages.
const OF_HUGE: usize = 2;
/// And what is mapped of them, and by PMD leaves of objects; and what is in swap slots.
const RARE: usize = 5;

macro_rules! area_text {
    ($page_size:literal) => {
        concat!(
            "Size:           @@@@@@@@ kB\n",
            "KernelPageSize: ",
            $page_size,
            " kB\n",
            "MMUPageSize:    ",
            $page_size,
            " kB\n",
            "Rss:            @@@@@@@@ kB\n",
            "Pss:            @@@@@@@@ kB\n",
            "Pss_Dirty:      @@@@@@@@ kB\n",
        )
    };
}

/// What follows an area's line of maps.
static AREA_FORM: AreaForm = Form::new(AREA_TEXT);
type AreaForm = Form<{ AREA_TEXT.len() }, AREA, 1>;
const AREA_TEXT: &str = area_text!("       4");
/// The same of huge pages.
static HUGE_AREA_FORM: HugeAreaForm = Form::new(HUGE_AREA_TEXT);
type HugeAreaForm = Form<{ HUGE_AREA_TEXT.len() }, { AREA + OF_HUGE }, 1>;
const HUGE_AREA_TEXT: &str = area_text!("@@@@@@@@");

/// The sums over all areas begin with.
static ROLLUP_FORM: RollupForm = Form::new(ROLLUP_TEXT);
type RollupForm = Form<{ ROLLUP_TEXT.len() }, ROLLUP, 1>;
const ROLLUP_TEXT: &str = "\
Rss:            @@@@@@@@ kB
Pss:            @@@@@@@@ kB
Pss_Dirty:      @@@@@@@@ kB
Pss_Anon:       @@@@@@@@ kB
Pss_File:       @@@@@@@@ kB
Pss_Shmem:             0 kB
";

macro_rules! common_text {
    ($huge:literal) => {
        concat!(
            "Shared_Clean:   @@@@@@@@ kB\n",
            "Shared_Dirty:   @@@@@@@@ kB\n",
            "Private_Clean:  @@@@@@@@ kB\n",
            "Private_Dirty:  @@@@@@@@ kB\n",
            "Referenced:     @@@@@@@@ kB\n",
            "Anonymous:      @@@@@@@@ kB\n",
            "KSM:                   0 kB\n",
            "LazyFree:       @@@@@@@@ kB\n",
            "AnonHugePages:  @@@@@@@@ kB\n",
            "ShmemPmdMapped: ",
            $huge,
            " kB\n",
            "FilePmdMapped:         0 kB\n",
            "Shared_Hugetlb: ",
            $huge,
            " kB\n",
            "Private_Hugetlb:",
            $huge,
            " kB\n",
            "Swap:           ",
            $huge,
            " kB\n",
            "SwapPss:        ",
            $huge,
            " kB\n",
            "Locked:         @@@@@@@@ kB\n",
        )
    };
}

/// Common part of both files.
static COMMON_FORM: CommonForm = Form::new(COMMON_TEXT);
type CommonForm = Form<{ COMMON_TEXT.len() }, COMMON, 1>;
const COMMON_TEXT: &str = common_text!("       0");
/// The same where there are huge pages.
static HUGE_COMMON_FORM: HugeCommonForm = Form::new(HUGE_COMMON_TEXT);
type HugeCommonForm = Form<{ HUGE_COMMON_TEXT.len() }, { COMMON + RARE }, 1>;
const HUGE_COMMON_TEXT: &str = common_text!("@@@@@@@@");

/// `Folios-64kB: 12 1 12`: how many folios of this size are mapped whole, how many in part, and how
/// many of the whole ones by contiguous entries (or one large one); Linux has no such lines.
static FOLIOS_FORM: FoliosForm = Form::new(FOLIOS_TEXT);
type FoliosForm = Form<{ FOLIOS_TEXT.len() }, FOLIO_ORDERS, 3>;
const FOLIOS_TEXT: &str = "\
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
";

/// An area's last lines: with 0 or 1 behind it; on machines that have keys, with two digits; and
/// the flags.
const ELIGIBLE: &[u8] = b"THPeligible:           ";
const KEY: &[u8] = b"\nProtectionKey:        ";
const FLAGS: &[u8] = b"\nVmFlags: ";

/// What a record has besides its line of maps, at most.
const ROOM: usize = HugeAreaForm::ROOM + HugeCommonForm::ROOM + FoliosForm::ROOM + LAST_LINES;
const LAST_LINES: usize = ELIGIBLE.len() + KEY.len() + FLAGS.len() + FLAG_WORDS.len() * 3 + 4;
const _: () = assert!(RollupForm::ROOM <= HugeAreaForm::ROOM);
const _: () = assert!(AreaForm::ROOM <= HugeAreaForm::ROOM);
/// Areas that are copied at once: some 10 kB of text.
const AREAS: usize = 8;

struct SmapsFile(Observed);

/// Opens /proc/PID/smaps.
pub fn open_smaps(subject: &Subject) -> Result<Arc<dyn FileOps>> {
    RecordFile::open(SmapsFile(Observed::new(subject)))
}

impl Records for SmapsFile {
    fn records(&self, from: u64, out: &mut Text) -> Result<Option<u64>> {
        self.0.check_process()?;
        let Some(space) = self.0.space() else {
            return Ok(None);
        };
        let areas = Areas::from(&space, from, AREAS)?;
        let sizes = Sizes::of(&space);
        let has_keys = space.mm().machine().keys() > 1;
        drop(space);
        let mut walk = SmapsWalk::default();
        for vma in &areas.vmas {
            let Some(figures) = spaces::figures(self.0.weak(), vma, &mut walk)? else {
                return Ok(None);
            };
            areas.line(vma, out)?;
            out.make_room(ROOM)?;
            area(vma, figures, out);
            common(out, figures);
            out.bytes(ELIGIBLE);
            out.byte(b'0' + u8::from(sizes.eligible(vma)));
            if has_keys {
                out.bytes(KEY);
                let key = vma.prot.key().0;
                out.byte(if key < 10 { b' ' } else { b'1' });
                out.byte(b'0' + key % 10);
            }
            out.bytes(FLAGS);
            flag_words(out, vma.prot, vma.flags);
            out.byte(b'\n');
        }
        Ok(areas.end())
    }
}

#[inline]
fn area(vma: &Vma, f: &Smaps, out: &mut Text) {
    let size = vma.range.len();
    match vma.huge_order() {
        None => AREA_FORM.fill(out, in_kb(&[size, f.rss, f.pss, f.pss_dirty])),
        Some(order) => {
            let page = order.bytes();
            let numbers = [size, page, page, f.rss, f.pss, f.pss_dirty];
            HUGE_AREA_FORM.fill(out, in_kb(&numbers));
        }
    }
}

/// [`HUGE_COMMON_FORM`].
#[cold]
fn huge_common(out: &mut Text, f: &Smaps) {
    let bytes: [u64; COMMON + RARE] = [
        f.shared_clean,
        f.shared_dirty,
        f.private_clean,
        f.private_dirty,
        f.referenced,
        f.anonymous,
        f.lazy_free,
        f.anon_huge,
        f.shmem_huge,
        f.shared_hugetlb,
        f.private_hugetlb,
        f.swap,
        f.swap_pss,
        f.locked,
    ];
    HUGE_COMMON_FORM.fill(out, in_kb(&bytes));
}

fn common(out: &mut Text, f: &Smaps) {
    if f.shared_hugetlb | f.private_hugetlb | f.shmem_huge | f.swap != 0 {
        huge_common(out, f);
    } else {
        plain_common(out, f);
    }
    let folios = f.folios.iter().map(|n| [n.whole, n.part, n.contpte]);
    FOLIOS_FORM.fill(out, folios);
}

#[inline]
fn plain_common(out: &mut Text, f: &Smaps) {
    let bytes: [u64; COMMON] = [
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
    COMMON_FORM.fill(out, in_kb(&bytes));
}

fn in_kb(bytes: &[u64]) -> impl Iterator<Item = [u64; 1]> + Clone {
    bytes.iter().map(|bytes| [bytes >> 10])
}

/// The sizes that folios may have.
struct Sizes {
    advised: Orders,
    others: Orders,
}

impl Sizes {
    /// Those that a space may have, with and without MADV_HUGEPAGE.
    fn of(space: &AddressSpace) -> Sizes {
        let controls = &space.mm().thp().controls;
        let allowed = |advised| policy::allowed(controls, advised, false, space.thp_permit());
        Sizes {
            advised: allowed(true),
            others: allowed(false),
        }
    }

    /// Whether faults in the area may get large folios.
    fn eligible(&self, vma: &Vma) -> bool {
        let orders = match vma.flags.contains(VmaFlags::HUGEPAGE) {
            true => self.advised,
            false => self.others,
        };
        let anon = matches!(vma.backing, Backing::Anon);
        anon && !vma.flags.contains(VmaFlags::NOHUGEPAGE)
            && !policy::fitting(vma.range, orders).is_empty()
    }
}

/// The words of VmFlags in the order of Linux's bits, each with a byte behind it that is not shown.
static FLAG_WORDS: [[u8; 4]; 28] = [
    *b"rd  ", *b"wr  ", *b"ex  ", *b"sh  ", *b"mr  ", *b"mw  ", *b"me  ", *b"ms  ", *b"gd  ",
    *b"gu  ", *b"lo  ", *b"sr  ", *b"rr  ", *b"dc  ", *b"lf  ", *b"ac  ", *b"nr  ", *b"ht  ",
    *b"wf  ", *b"dd  ", *b"sd  ", *b"hg  ", *b"nh  ", *b"um  ", *b"uw  ", *b"ui  ", *b"dp  ",
    *b"sl  ",
];

fn flag_words(out: &mut Text, prot: Prot, flags: VmaFlags) {
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
        flags.contains(VmaFlags::GUARDED),
        flags.contains(VmaFlags::LOCKED),
        flags.contains(VmaFlags::SEQUENTIAL),
        flags.contains(VmaFlags::RANDOM),
        flags.contains(VmaFlags::DONTFORK),
        flags.contains(VmaFlags::LOCKONFAULT),
        flags.contains(VmaFlags::ACCOUNT),
        flags.contains(VmaFlags::NORESERVE),
        flags.contains(VmaFlags::HUGETLB),
        flags.contains(VmaFlags::WIPEONFORK),
        flags.contains(VmaFlags::DONTDUMP),
        !flags.contains(VmaFlags::TRACKED),
        flags.contains(VmaFlags::HUGEPAGE),
        flags.contains(VmaFlags::NOHUGEPAGE),
        flags.contains(VmaFlags::UFFD_MISSING),
        flags.contains(VmaFlags::UFFD_WP),
        flags.contains(VmaFlags::UFFD_MINOR),
        flags.contains(VmaFlags::DROPPABLE),
        flags.contains(VmaFlags::SEALED),
    ];
    let bits = set.iter().enumerate();
    let mut left = bits.fold(0u32, |bits, (n, set)| bits | u32::from(*set) << n);
    while left != 0 {
        out.first(3, FLAG_WORDS[left.trailing_zeros() as usize]);
        left &= left - 1;
    }
}

struct Rollup(Observed);

/// Opens /proc/PID/smaps_rollup: the sums.
pub fn open_rollup(subject: &Subject) -> Result<Arc<dyn FileOps>> {
    RecordFile::open(Rollup(Observed::new(subject)))
}

impl Records for Rollup {
    /// The one record. ESRCH once the process has ended.
    fn records(&self, from: u64, out: &mut Text) -> Result<Option<u64>> {
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
        out.make_room(LINE + ROOM)?;
        let all = Vma::new(range, Prot::empty(), VmaFlags::empty(), Backing::Anon);
        named_line(out, &all, b"[rollup]");
        let file = if sum.anonymous == 0 { sum.pss } else { 0 };
        let anon = sum.pss - file;
        ROLLUP_FORM.fill(out, in_kb(&[sum.rss, sum.pss, sum.pss_dirty, anon, file]));
        common(out, &sum);
        Ok(Some(u64::MAX))
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
    sum.shmem_huge += other.shmem_huge;
    sum.shared_hugetlb += other.shared_hugetlb;
    sum.private_hugetlb += other.private_hugetlb;
    sum.swap += other.swap;
    sum.swap_pss += other.swap_pss;
    sum.locked += other.locked;
    for (sum, other) in sum.folios.iter_mut().zip(other.folios) {
        *sum += other;
    }
}
