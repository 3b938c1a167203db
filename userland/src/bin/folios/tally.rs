//! Pages in the order of their addresses, summed up by the folios that they belong to.
use std::collections::BTreeMap;
use std::fmt;
use userland::sys::mem::PAGE;

/// The largest folio, in pages.
const PMD: usize = 512;

/// A page that is mapped, and its folio: a page by itself when it has one page.
#[derive(Clone, Copy)]
pub struct Page {
    /// Where it is mapped.
    pub va: usize,
    /// Its frame.
    pub frame: usize,
    /// The first frame of its folio.
    pub head: usize,
    /// Pages of its folio.
    pub pages: usize,
    /// Private memory; else a file's, or shared.
    pub anon: bool,
    /// The shared zero page, which belongs to no process.
    pub zero: bool,
}

/// How a row of pages of one folio is mapped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum How {
    /// All of the folio, in order, at a multiple of its size, by one PMD entry.
    PmdAligned,
    /// The same by PTEs.
    Aligned,
    /// All of it, in order, elsewhere.
    Unaligned,
    /// A part of it, or not in order.
    Partial,
}

/// What a sum is of: private or not, how it is mapped, and for whole folios of how many pages.
type Sort = (bool, How, usize);

/// Pages by how they are mapped.
#[derive(Default)]
pub struct Tally {
    sums: BTreeMap<Sort, usize>,
    /// Mapped pages, of files and private.
    all: [usize; 2],
    row: Option<Row>,
}

/// Pages of one folio side by side: the first of them, and how many.
struct Row {
    first: Page,
    seen: usize,
}

impl Row {
    fn goes_on(&self, page: &Page) -> bool {
        page.head == self.first.head
            && page.frame == self.first.frame + self.seen
            && page.va == self.first.va + self.seen * PAGE
    }

    fn sort(&self) -> Sort {
        let Page { va, pages, .. } = self.first;
        let whole = self.seen == pages;
        let how = match va % (pages * PAGE) {
            _ if !whole => How::Partial,
            0 => How::Aligned,
            _ => How::Unaligned,
        };
        (self.first.anon, how, if whole { pages } else { 0 })
    }
}

impl Tally {
    /// Counts the next page.
    pub fn page(&mut self, page: &Page) {
        self.all[usize::from(page.anon)] += usize::from(!page.zero);
        match &mut self.row {
            Some(row) if row.goes_on(page) => row.seen += 1,
            _ => {
                self.end();
                self.row = (page.pages > 1).then_some(Row {
                    first: *page,
                    seen: 1,
                });
            }
        }
    }

    /// There are no more.
    pub fn end(&mut self) {
        if let Some(row) = self.row.take() {
            *self.sums.entry(row.sort()).or_default() += row.seen;
        }
    }

    /// So many private pages are mapped by PMD entries: smaps knows, pagemap does not.
    pub fn by_pmd(&mut self, pages: usize) {
        let aligned = self.sums.entry((true, How::Aligned, PMD)).or_default();
        let pages = pages.min(*aligned);
        *aligned -= pages;
        self.sums.insert((true, How::PmdAligned, PMD), pages);
    }

    /// Whether there is a large folio.
    pub fn any(&self) -> bool {
        self.sums.values().any(|pages| *pages > 0)
    }

    /// Adds another one's sums.
    pub fn add(&mut self, other: &Tally) {
        for (sort, pages) in &other.sums {
            *self.sums.entry(*sort).or_default() += pages;
        }
        (0..2).for_each(|n| self.all[n] += other.all[n]);
    }
}

/// A line for each sum that is not 0: kB, and per cent of what is mapped of that kind of memory.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ((anon, how, pages), sum) in self.sums.iter().filter(|(_, sum)| **sum > 0) {
            let memory = if *anon { "anon" } else { "file" };
            let kb = (pages * PAGE) >> 10;
            let name = match how {
                How::PmdAligned => format!("{memory}-thp-pmd-aligned-{kb}kB:"),
                How::Aligned => format!("{memory}-thp-pte-aligned-{kb}kB:"),
                How::Unaligned => format!("{memory}-thp-pte-unaligned-{kb}kB:"),
                How::Partial => format!("{memory}-thp-pte-partial:"),
            };
            let all = self.all[usize::from(*anon)];
            let percent = (sum * 100 + all / 2) / all;
            writeln!(f, "{name:<32}{:>8} kB ({percent:>3}%)", (sum * PAGE) >> 10)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts `n` pages from `va` on, mapped to the frames from `frame` on, of folios of `pages`
    /// pages.
    fn map(tally: &mut Tally, va: usize, frame: usize, n: usize, pages: usize) {
        for i in 0..n {
            tally.page(&Page {
                va: va + i * PAGE,
                frame: frame + i,
                head: (frame + i) / pages * pages,
                pages,
                anon: true,
                zero: false,
            });
        }
    }

    fn shown(tally: &mut Tally) -> Vec<String> {
        tally.end();
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        tally.to_string().lines().map(words).collect()
    }

    #[test]
    fn whole_folios_are_aligned_or_not() {
        let mut tally = Tally::default();
        map(&mut tally, 0x10_0000, 64, 32, 16);
        map(&mut tally, 0x20_1000, 128, 16, 16);
        map(&mut tally, 0x30_0000, 1000, 16, 1);
        let wanted = [
            "anon-thp-pte-aligned-64kB: 128 kB ( 50%)",
            "anon-thp-pte-unaligned-64kB: 64 kB ( 25%)",
        ];
        assert_eq!(shown(&mut tally), wanted);
    }

    #[test]
    fn parts_and_pages_out_of_order_are_partial() {
        let mut tally = Tally::default();
        map(&mut tally, 0x10_0000, 64, 15, 16);
        map(&mut tally, 0x20_0000, 88, 8, 16);
        map(&mut tally, 0x20_8000, 80, 8, 16);
        assert_eq!(shown(&mut tally), ["anon-thp-pte-partial: 124 kB (100%)"]);
    }

    #[test]
    fn pmd_entries_are_those_of_smaps() {
        let mut tally = Tally::default();
        map(&mut tally, 0x40_0000, 1024, 1024, PMD);
        tally.end();
        tally.by_pmd(PMD);
        let wanted = [
            "anon-thp-pmd-aligned-2048kB: 2048 kB ( 50%)",
            "anon-thp-pte-aligned-2048kB: 2048 kB ( 50%)",
        ];
        assert_eq!(shown(&mut tally), wanted);
    }

    #[test]
    fn single_pages_are_no_large_folio() {
        let mut tally = Tally::default();
        map(&mut tally, 0x10_0000, 64, 32, 1);
        tally.end();
        tally.by_pmd(0);
        assert!(!tally.any() && tally.to_string().is_empty());
    }
}
