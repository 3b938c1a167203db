//! The memory that is measured: where it lies and what it must hold.
use userland::measuring::{self, wrong};
use userland::sys::mem::{self, PAGE, RW, munmap};
use userland::sys::{Errno, Result};

/// A PMD's worth of memory: the largest folio.
pub const HUGE: usize = 2 << 20;

/// Private anonymous memory that begins at a multiple of its size; unmapped when dropped.
pub struct Region {
    /// Where it lies.
    pub at: usize,
    /// Where it lay when it was touched: mremap may have moved it.
    pub origin: usize,
    /// Its size in pages.
    pub pages: usize,
}

/// Pages of a region that is checked whole.
const ALL: usize = 1 << 15;

/// What [`Region::dot`] writes.
pub const DOT: u8 = 0x5c;

impl Region {
    /// `pages` pages of nothing yet.
    pub fn map(pages: usize) -> Result<Region> {
        Ok(Region::at(reserve(pages, RW)?, pages))
    }

    /// `pages` pages from `at` on, which are mapped.
    pub fn at(at: usize, pages: usize) -> Region {
        let origin = at;
        Region { at, origin, pages }
    }

    /// The address of page `n`.
    pub fn page(&self, n: usize) -> usize {
        self.at + n * PAGE
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.pages * PAGE
    }

    /// Where it ends.
    pub fn end(&self) -> usize {
        self.at + self.len()
    }

    /// What page `n` holds after [`Region::touch`]: its address there and then, and zeros.
    pub fn mark(&self, n: usize) -> u64 {
        (self.origin + n * PAGE) as u64
    }

    /// Writes the mark of each page: the first write to it in a new region.
    pub fn touch(&self) -> Result<()> {
        mem::store_addresses(self.at, self.end());
        Ok(())
    }

    /// Fills each page with its colour.
    #[inline(never)]
    pub fn fill(&self) -> Result<()> {
        for at in (self.at..self.end()).step_by(PAGE) {
            mem::fill_page(at, paint(at));
        }
        Ok(())
    }

    /// Writes one byte of each page: the mark's lowest.
    pub fn dot(&self) -> Result<()> {
        mem::store_bytes(self.at, self.end(), DOT);
        Ok(())
    }

    /// Writes one byte of each `step`-th page.
    pub fn dot_one_of(&self, step: usize) -> Result<()> {
        let pages = (0..self.pages).step_by(step).map(|n| self.page(n));
        pages.for_each(|at| mem::store_bytes(at, at + PAGE, DOT));
        Ok(())
    }

    /// Calls mprotect for one page of each 2 MiB.
    #[inline(never)]
    pub fn protect_one_of_each(&self, prot: i32) -> Result<()> {
        (self.at..self.end())
            .step_by(HUGE)
            .try_for_each(|at| mem::mprotect(at, PAGE, prot))
    }

    /// Large folios become mapped by PTEs: one page of each loses its write permission, and gets it
    /// back.
    pub fn map_by_ptes(&self) -> Result<()> {
        self.protect_one_of_each(libc::PROT_READ)?;
        self.protect_one_of_each(RW)
    }

    /// Every page holds `first(n)` and then `rest(n)`. Of a large region, so many pages are looked
    /// at as a small one has, at every place of a folio.
    pub fn check(&self, first: impl Fn(usize) -> u64, rest: impl Fn(usize) -> u64) -> Result<()> {
        let step = (self.pages / ALL) | 1;
        match (0..self.pages)
            .step_by(step)
            .find(|&n| !mem::page_is(self.page(n), first(n), rest(n)))
        {
            None => Ok(()),
            Some(n) => Err(wrong(&format!(
                "page {n} holds {:#x}, {:#x}, not {:#x}, {:#x}",
                mem::load(self.page(n)),
                mem::load(self.page(n) + 8),
                first(n),
                rest(n)
            ))),
        }
    }

    /// As [`Region::touch`] left it.
    pub fn check_touched(&self) -> Result<()> {
        self.check(|n| self.mark(n), |_| 0)
    }

    /// What [`Region::fill`] leaves in the word at an address.
    pub fn painted(&self, at: usize) -> u64 {
        u64::from_ne_bytes([paint(at); 8])
    }

    /// As [`Region::fill`] left it.
    pub fn check_filled(&self) -> Result<()> {
        let word = |n| self.painted(self.page(n));
        self.check(word, word)
    }

    /// As [`Region::dot`] left it after a touch.
    pub fn check_dotted(&self) -> Result<()> {
        self.check(|n| self.mark(n) | u64::from(DOT), |_| 0)
    }

    /// As [`Region::dot_one_of`] left it after a touch.
    pub fn check_one_of(&self, step: usize) -> Result<()> {
        let dot = |n: usize| {
            if n.is_multiple_of(step) {
                u64::from(DOT)
            } else {
                0
            }
        };
        self.check(|n| self.mark(n) | dot(n), |_| 0)
    }

    /// Nothing is mapped here.
    pub fn check_gone(&self) -> Result<()> {
        match mem::mincore(self.at, self.pages) {
            Err(Errno(libc::ENOMEM)) => Ok(()),
            _ => Err(wrong("the region is still mapped")),
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // Unmapping what a measured call unmapped already is no error either.
        let _ = munmap(self.at, self.len());
    }
}

/// Address space with this protection, at a multiple of its size: how many tables a region lies in
/// must not depend on what addresses a program gets.
pub fn reserve(pages: usize, prot: i32) -> Result<usize> {
    let len = pages * PAGE;
    let multiple = len.next_power_of_two().clamp(HUGE, 1 << 30);
    measuring::reserve(len, multiple, prot)
}

/// The colour of the page at this address: neighbours differ.
fn paint(at: usize) -> u8 {
    (at / PAGE) as u8
}
