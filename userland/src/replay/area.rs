//! Memory with a pattern: two PMDs' worth, in a mapping of its own.
use crate::harness::{Outcome, Stop};
use crate::sys::mem::{ANON, PAGE, RW, load, madvise, mmap, mprotect, munmap, store};
use crate::{check, check_eq};

const PMD: usize = 2 << 20;

/// The folios that a case is run with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Folios of this size in kB.
    Folio(usize),
    /// Folios of 2048 kB, mapped by PTEs.
    ByPages,
}

impl Size {
    pub fn kb(self) -> usize {
        match self {
            Size::Folio(kb) => kb,
            Size::ByPages => 2048,
        }
    }
}

/// The words of a page that hold its pattern: its ends, and two lines inside.
const WORDS: [usize; 4] = [0, 170, 341, 511];

/// Memory of `LEN` bytes at a multiple of 2 MiB, with nothing mapped readable beside it. Gone when
/// it is dropped.
pub struct Area {
    pub at: usize,
}

pub const LEN: usize = 2 * PMD;
pub const PAGES: usize = LEN / PAGE;

/// The contents of word `word` of page `page` in version `version`.
fn value(page: usize, word: usize, version: u64) -> u64 {
    ((page * 512 + word) as u64 ^ (version << 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Parts of an area that are no multiple of any folio, as first page and pages: single pages,
/// pieces across blocks and across the border of two PMDs.
pub const PARTS: [(usize, usize); 7] = [
    (0, 1),
    (5, 3),
    (16, 16),
    (41, 50),
    (200, 60),
    (508, 9),
    (PAGES - 1, 1),
];

/// Whether a page is in one of [`PARTS`].
pub fn inside(page: usize) -> bool {
    PARTS
        .iter()
        .any(|(first, n)| (*first..first + n).contains(&page))
}

impl Area {
    /// Nothing is touched yet.
    pub fn empty(size: Size) -> Result<Area, Stop> {
        let space = mmap(0, LEN + 2 * PMD, libc::PROT_NONE, ANON, -1, 0)?;
        let at = (space + PAGE).next_multiple_of(PMD);
        munmap(space, at - PAGE - space)?;
        munmap(at + LEN + PAGE, space + 2 * PMD - at - PAGE)?;
        let advice = match size {
            Size::Folio(4) => libc::MADV_NOHUGEPAGE,
            _ => libc::MADV_HUGEPAGE,
        };
        mprotect(at, LEN, RW)?;
        // A kernel without large folios refuses either, and that is as good.
        let _ = madvise(at, LEN, advice);
        Ok(Area { at })
    }

    /// Every page holds version 1.
    pub fn new(size: Size) -> Result<Area, Stop> {
        let area = Area::empty(size)?;
        area.write_all(1);
        if size == Size::ByPages {
            area.by_pages()?;
        }
        Ok(area)
    }

    /// Makes the kernel split its PMD mappings into PTEs.
    pub fn by_pages(&self) -> Outcome {
        for pmd in (self.at..self.at + LEN).step_by(PMD) {
            mprotect(pmd + PAGE, PAGE, libc::PROT_READ)?;
            mprotect(pmd + PAGE, PAGE, RW)?;
        }
        Ok(())
    }

    pub fn page(&self, page: usize) -> usize {
        self.at + page * PAGE
    }

    /// Writes one page.
    pub fn write(&self, page: usize, version: u64) {
        let at = self.page(page);
        WORDS
            .iter()
            .for_each(|word| store(at + word * 8, value(page, *word, version)));
    }

    /// Writes every page.
    pub fn write_all(&self, version: u64) {
        (0..PAGES).for_each(|page| self.write(page, version));
    }

    /// The bytes of a page of a version, which has zeros between its words.
    pub fn bytes(page: usize, version: u64) -> Vec<u8> {
        let mut bytes = vec![0; PAGE];
        for word in WORDS {
            let at = word * 8;
            bytes[at..at + 8].copy_from_slice(&value(page, word, version).to_ne_bytes());
        }
        bytes
    }

    /// Whether the page, mapped at `at`, holds a version; version 0 is zeros.
    pub fn page_at_holds(at: usize, page: usize, version: u64) -> bool {
        let wanted = |word| match version {
            0 => 0,
            _ => value(page, word, version),
        };
        WORDS
            .iter()
            .all(|word| load(at + word * 8) == wanted(*word))
    }

    /// Checks every page for which `version` returns a version.
    pub fn check(&self, version: impl Fn(usize) -> Option<u64>) -> Outcome {
        let wrong = |page: &usize| {
            version(*page).is_some_and(|v| !Area::page_at_holds(self.page(*page), *page, v))
        };
        let wrong: Vec<usize> = (0..PAGES).filter(wrong).collect();
        check!(
            wrong.is_empty(),
            "{} pages are wrong, the first {:?}",
            wrong.len(),
            &wrong[..wrong.len().min(8)]
        );
        Ok(())
    }

    /// Every page must hold this version.
    pub fn holds(&self, version: u64) -> Outcome {
        self.check(|_| Some(version))
    }

    /// Nothing is mapped at these pages.
    pub fn is_hole(&self, first: usize, pages: usize) -> Outcome {
        for page in first..first + pages {
            let resident = crate::sys::mem::mincore(self.page(page), 1);
            check_eq!(
                (page, resident),
                (page, Err(crate::sys::Errno(libc::ENOMEM)))
            );
        }
        Ok(())
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        let _ = munmap(self.at - PAGE, LEN + 2 * PAGE);
    }
}
