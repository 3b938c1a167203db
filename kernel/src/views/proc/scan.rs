//! PAGEMAP_SCAN, an ioctl of /proc/PID/pagemap: the ranges of pages that are in given categories
//! (pagemap.rst, `struct pm_scan_arg` of linux/fs.h).
//!
//! A page counts as written unless userfaultfd write-protects it. Only areas that are protected
//! asynchronously, whether present or not, are protected by a scan.

use super::observed::Observed;
use crate::arch::pte::Format;
use crate::base::errno::{Errno, Result};
use crate::base::machine::AddressSpace;
use crate::base::user_ptr::UserPtr;
use crate::sched;
use mm::PageInfo;
use mm::addr::{PAGE_SHIFT, PAGE_SIZE, VirtAddr, VirtRange};
use mm::arch::PteFormat;
use mm::thp::PMD_ORDER;
use mm::thp::policy::block;
use mm::vma::VmaFlags;

/// `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: u32 = 0xc060_6610;

bitflags::bitflags! {
    /// PAGE_IS_*.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    struct Categories: u64 {
        const WPALLOWED = 1 << 0;
        const WRITTEN = 1 << 1;
        const FILE = 1 << 2;
        const PRESENT = 1 << 3;
        const SWAPPED = 1 << 4;
        const PFNZERO = 1 << 5;
        const HUGE = 1 << 6;
        const SOFT_DIRTY = 1 << 7;
        const GUARD = 1 << 8;
        /// Not Linux's: an area covers the page.
        const MAPPED = 1 << 63;
    }

    /// PM_SCAN_*.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    struct Flags: u64 {
        /// Write-protects what matches.
        const WP_MATCHING = 1;
        /// EPERM for areas that are not write-protected asynchronously.
        const CHECK_WPASYNC = 2;
    }
}

impl Categories {
    /// Of a page whose table is there. As in Linux, an entry that is absent counts as written, and
    /// a guard as swapped out.
    fn of(info: &PageInfo) -> Categories {
        let mut all = Categories::MAPPED;
        all.set(Categories::WRITTEN, !info.write_protected);
        all.set(
            Categories::SWAPPED,
            info.marked || info.guard || info.swapped,
        );
        all.set(Categories::WPALLOWED, info.tracks_writes);
        all.set(Categories::FILE, info.file_or_shared);
        all.set(Categories::PRESENT, info.present);
        all.set(Categories::PFNZERO, info.zero_page);
        all.set(Categories::HUGE, info.huge);
        all.set(Categories::SOFT_DIRTY, info.soft_dirty);
        all.set(Categories::GUARD, info.guard);
        all
    }
}

/// `struct pm_scan_arg`, by 64-bit words.
type Words = [u64; 12];
const WALK_END: u64 = 4;

/// `struct page_region`: start, end, categories.
type Region = [u64; 3];

/// A scan: what is looked for, and what was found.
struct Scan {
    range: VirtRange,
    flags: Flags,
    /// Where the regions go, and how many there may be; `None` if they are only counted.
    into: Option<(UserPtr<Region>, u64)>,
    /// Pages that may still be found.
    pages: u64,
    inverted: Categories,
    all_of: Categories,
    any_of: Categories,
    shown: Categories,
    /// The pages that were found last.
    found: VirtRange,
    /// Regions before the last one.
    done: u64,
    last: Option<Region>,
}

impl Scan {
    /// EINVAL, EFAULT.
    fn new(words: &Words) -> Result<Scan> {
        let [size, flags, start, end, _, vec, vec_len, pages, masks @ ..] = *words;
        let [inverted, all_of, any_of, shown] = masks;
        let known = |mask| {
            let mask = Categories::from_bits(mask).ok_or(Errno::EINVAL)?;
            match mask.contains(Categories::MAPPED) {
                true => Err(Errno::EINVAL),
                false => Ok(mask),
            }
        };
        if size != size_of::<Words>() as u64 || start % PAGE_SIZE != 0 {
            return Err(Errno::EINVAL);
        }
        if end < start {
            return Err(Errno::EFAULT);
        }
        let end = VirtAddr(end).align_up(PAGE_SIZE);
        let inside = end.filter(|end| *end <= Format::USER_END);
        let end = inside.ok_or(Errno::EFAULT)?;
        if vec == 0 && vec_len != 0 {
            return Err(Errno::EINVAL);
        }
        Ok(Scan {
            range: VirtRange::new(VirtAddr(start), end),
            flags: Flags::from_bits(flags).ok_or(Errno::EINVAL)?,
            into: (vec_len != 0).then(|| (vec.into(), vec_len)),
            pages: if pages == 0 { u64::MAX } else { pages },
            inverted: known(inverted)?,
            all_of: known(all_of)?,
            any_of: known(any_of)?,
            shown: known(shown)?,
            found: VirtRange::default(),
            done: 0,
            last: None,
        })
    }

    fn wants(&self, page: Categories) -> bool {
        let page = page ^ self.inverted;
        page.contains(self.all_of) && (self.any_of.is_empty() || page.intersects(self.any_of))
    }

    /// Adds pages of the same categories. `Some`: the scan ends there, as there is no room for the
    /// rest.
    fn add(&mut self, part: VirtRange, page: Categories) -> Result<Option<VirtAddr>> {
        if !self.wants(page) {
            return Ok(None);
        }
        let shown = (page & self.shown).bits();
        let continues = self
            .last
            .is_some_and(|[_, end, categories]| (end, categories) == (part.start.0, shown));
        let used = self.done + u64::from(self.last.is_some());
        let full = self.into.is_some_and(|(_, len)| used == len);
        if self.pages == 0 || full && !continues {
            return Ok(Some(part.start));
        }
        let taken = part.pages().min(self.pages);
        let end = part.start + (taken << PAGE_SHIFT);
        self.found = VirtRange::new(part.start, end);
        self.pages -= taken;
        match &mut self.last {
            Some(last) if continues => last[1] = end.0,
            _ => {
                self.put_last()?;
                self.last = Some([part.start.0, end.0, shown]);
            }
        }
        Ok((end < part.end).then_some(end))
    }

    /// Writes out the last region.
    fn put_last(&mut self) -> Result {
        if let (Some(region), Some((first, _))) = (self.last.take(), self.into) {
            first.element(self.done).write(&region)?;
            self.done += 1;
        }
        Ok(())
    }

    /// One step from `rest` on: a part without tables, or one table. Returns where the rest begins;
    /// `Err` inside: where the scan ends.
    fn step(
        &mut self,
        space: &AddressSpace,
        rest: VirtRange,
    ) -> Result<core::result::Result<VirtAddr, VirtAddr>> {
        let size = space.userfault_page_size(rest.start);
        if size > PAGE_SIZE && self.flags.contains(Flags::WP_MATCHING) {
            return self.huge_page(space, rest, size);
        }
        let used = space.first_used(rest).unwrap_or(rest.end);
        let empty = VirtRange::new(rest.start, used.max(rest.start));
        if !empty.is_empty() {
            return self.without_tables(space, empty);
        }
        let table = block(rest.start, PMD_ORDER);
        let part = VirtRange::new(rest.start, table.end.min(rest.end));
        let mut words = [0; PAGES];
        let words = &mut words[..(part.pages() as usize).min(PAGES)];
        space.page_words(part.start, words, |info| Categories::of(info).bits());
        let mut at = part.start;
        for same in words.chunk_by(|a, b| a == b) {
            let run = VirtRange::new(at, at + ((same.len() as u64) << PAGE_SHIFT));
            at = run.end;
            let page = Categories::from_bits_retain(same[0]);
            if !page.contains(Categories::MAPPED) {
                continue;
            }
            let stopped = self.add(run, page)?;
            self.protect_found(space, page.contains(Categories::WRITTEN))?;
            if let Some(end) = stopped {
                return Ok(Err(end));
            }
        }
        Ok(Ok(at))
    }

    /// A step of one huge page of `size` bytes, or of what `rest` has of it: none is protected in
    /// parts, the scan ends before it.
    fn huge_page(
        &mut self,
        space: &AddressSpace,
        rest: VirtRange,
        size: u64,
    ) -> Result<core::result::Result<VirtAddr, VirtAddr>> {
        let end = rest.start.align_down(size) + size;
        let page = VirtRange::new(rest.start, end.min(rest.end));
        let mut word = [0];
        space.page_words(page.start, &mut word, |info| Categories::of(info).bits());
        let categories = Categories::from_bits_retain(word[0]);
        let written = categories.contains(Categories::WRITTEN);
        let whole = page.len() == size && page.pages() <= self.pages;
        if written && !whole && self.wants(categories) {
            return Ok(Err(page.start));
        }
        let stopped = self.add(page, categories)?;
        self.protect_found(space, written)?;
        Ok(match stopped {
            Some(end) => Err(end),
            None => Ok(page.end),
        })
    }

    /// Write-protects the pages that were found last, if that is asked for and `written` says that
    /// they need it.
    fn protect_found(&mut self, space: &AddressSpace, written: bool) -> Result {
        let found = core::mem::take(&mut self.found);
        if written && !found.is_empty() && self.flags.contains(Flags::WP_MATCHING) {
            space.userfault_protect_async(found)?;
        }
        Ok(())
    }

    /// The first area of a part without tables.
    fn without_tables(
        &mut self,
        space: &AddressSpace,
        part: VirtRange,
    ) -> Result<core::result::Result<VirtAddr, VirtAddr>> {
        let vma = space.vma_from(part.start);
        let Some((vma, run)) = vma.and_then(|vma| {
            let run = vma.range.intersection(&part)?;
            Some((vma, run))
        }) else {
            return Ok(Ok(part.end));
        };
        let mut page = Categories::MAPPED;
        page.set(
            Categories::SOFT_DIRTY,
            !vma.flags.contains(VmaFlags::TRACKED),
        );
        page.set(Categories::WPALLOWED, vma.is_protected_async());
        let stopped = self.add(run, page)?;
        self.protect_found(space, true)?;
        Ok(match stopped {
            Some(end) => Err(end),
            None => Ok(run.end),
        })
    }

    /// The first part of `rest` to look at: without the areas that a scan that protects skips.
    /// `None`: there is no more. EPERM: of an area that is not protected asynchronously, which the
    /// scan refuses.
    fn next_part(&self, space: &AddressSpace, rest: VirtRange) -> Result<Option<VirtRange>> {
        if self.flags.is_empty() {
            return Ok(Some(rest));
        }
        let mut at = rest.start;
        while let Some(vma) = space.vma_from(at)
            && let Some(part) = vma.range.intersection(&VirtRange::new(at, rest.end))
        {
            if vma.is_protected_async() {
                return Ok(Some(part));
            }
            if self.flags.contains(Flags::CHECK_WPASYNC) {
                return Err(Errno::EPERM);
            }
            at = part.end;
            if at == rest.end {
                break;
            }
        }
        Ok(None)
    }

    /// Returns where the scan ended.
    fn run(&mut self, observed: &Observed) -> Result<VirtAddr> {
        let mut rest = self.range;
        while !rest.is_empty() {
            let Some(space) = observed.space() else {
                // Nothing is mapped any more.
                return Ok(rest.end);
            };
            let Some(part) = self.next_part(&space, rest)? else {
                return Ok(rest.end);
            };
            match self.step(&space, part)? {
                Ok(next) => rest.start = next,
                Err(end) => return Ok(end),
            }
            drop(space);
            if sched::breathe() {
                return Err(Errno::EINTR);
            }
        }
        Ok(rest.end)
    }
}

/// Pages of one step.
const PAGES: usize = 512;

/// One ioctl of /proc/PID/pagemap: the number of regions that were found. EPERM: an area is not
/// write-protected asynchronously, as PM_SCAN_CHECK_WPASYNC demands.
pub fn ioctl(observed: &Observed, command: u32, argument: u64) -> Result<u64> {
    if command != PAGEMAP_SCAN {
        return Err(Errno::ENOTTY);
    }
    let words: Words = UserPtr::from(argument).read()?;
    let mut scan = Scan::new(&words)?;
    let end = scan.run(observed)?;
    scan.put_last()?;
    UserPtr::<u64>::from(argument)
        .element(WALK_END)
        .write(&end.0)?;
    Ok(scan.done)
}
