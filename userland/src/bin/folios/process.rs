//! `--pid N`: how any process maps large folios, as thpmaps of Linux's tools/mm shows it, from
//! /proc/N/smaps, /proc/N/pagemap and /proc/kpageflags (pagemap.rst), which root may read.
use crate::tally::{Page, Tally};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use userland::counters::{Table, is_header};
use userland::sys::mem::PAGE;
use userland::sys::{Errno, Result};

/// Pages that are looked at in one go: the largest folio, and folios lie at multiples of their
/// size.
const BLOCK: usize = 512;

/// pagemap: the page is there; its frame.
const PRESENT: u64 = 1 << 63;
const FRAME: u64 = (1 << 55) - 1;

/// kpageflags.
mod flag {
    pub const ANON: u64 = 1 << 12;
    pub const HEAD: u64 = 1 << 15;
    pub const TAIL: u64 = 1 << 16;
    pub const THP: u64 = 1 << 22;
    pub const ZERO_PAGE: u64 = 1 << 24;
}

/// One area of the process: its line in maps, and its fields.
struct Area {
    header: String,
    fields: Table,
}

impl Area {
    /// Those of a text of smaps.
    fn all(path: &str, text: &str) -> Vec<Area> {
        let mut areas = Vec::new();
        let mut lines = text.lines().peekable();
        while let Some(header) = lines.next() {
            let mut fields = String::new();
            while let Some(line) = lines.next_if(|line| !is_header(line)) {
                fields += line;
                fields.push('\n');
            }
            areas.push(Area {
                header: header.to_owned(),
                fields: Table::parse(path, &fields),
            });
        }
        areas
    }
}

/// The words of a binary file.
struct WordFile(File);

impl WordFile {
    fn open(path: &str) -> Result<WordFile> {
        Ok(WordFile(File::open(path)?))
    }

    /// `n` of them from number `first` on; fewer at the end of the file.
    fn read(&self, first: usize, n: usize) -> Result<Vec<u64>> {
        let mut bytes = vec![0; n * 8];
        let mut length = 0;
        loop {
            match self
                .0
                .read_at(&mut bytes[length..], (first * 8 + length) as u64)?
            {
                0 => break,
                more => length += more,
            }
        }
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap_or_default());
        Ok(bytes[..length].chunks_exact(8).map(word).collect())
    }
}

/// What kpageflags says, a block of frames at a time.
struct Frames {
    file: WordFile,
    first: usize,
    flags: Vec<u64>,
}

impl Frames {
    fn open() -> Result<Frames> {
        Ok(Frames {
            file: WordFile::open("/proc/kpageflags")?,
            first: usize::MAX,
            flags: Vec::new(),
        })
    }

    /// The page in a frame that is mapped at `va`.
    fn page(&mut self, va: usize, frame: usize) -> Result<Page> {
        let first = frame / BLOCK * BLOCK;
        if first != self.first {
            (self.flags, self.first) = (self.file.read(first, BLOCK)?, first);
        }
        let place = frame - first;
        let flags = *self.flags.get(place).ok_or(Errno(libc::EIO))?;
        let is = |place: usize, flag| self.flags.get(place).is_some_and(|word| word & flag != 0);
        let large = flags & flag::THP != 0 && flags & flag::ZERO_PAGE == 0;
        let (mut head, mut end) = (place, place + 1);
        if large {
            while head > 0 && !is(head, flag::HEAD) {
                head -= 1;
            }
            while is(end, flag::TAIL) {
                end += 1;
            }
        }
        Ok(Page {
            va,
            frame,
            head: first + head,
            pages: end - head,
            anon: flags & flag::ANON != 0,
            zero: flags & flag::ZERO_PAGE != 0,
        })
    }
}

/// Prints each area of the process in which there are large folios, and all areas together.
pub fn show(pid: u32) -> Result<()> {
    let path = format!("/proc/{pid}/smaps");
    let pagemap = WordFile::open(&format!("/proc/{pid}/pagemap"))?;
    let (mut frames, mut total) = (Frames::open()?, Tally::default());
    for area in Area::all(&path, &fs::read_to_string(&path)?) {
        let of = |name| area.fields.get(name).map_err(|missing| missing.say());
        let mut tally = Tally::default();
        if of("Rss")? > 0 {
            tally = count(&pagemap, &mut frames, crate::range(&area.header))?;
            tally.by_pmd(of("AnonHugePages")? as usize / 4);
        }
        if tally.any() {
            print!("{}\n{tally}", area.header);
        }
        total.add(&tally);
    }
    print!("all areas of {pid}\n{total}");
    if !total.any() {
        println!("no large folios");
    }
    Ok(())
}

/// The pages mapped in a range of addresses. EPERM when pagemap hides frame numbers.
fn count(pagemap: &WordFile, frames: &mut Frames, range: std::ops::Range<usize>) -> Result<Tally> {
    let mut tally = Tally::default();
    let mut at = range.start / PAGE;
    while at < range.end / PAGE {
        let n = BLOCK.min(range.end / PAGE - at);
        let entries = pagemap.read(at, n)?;
        for (page, entry) in (at..).zip(&entries).filter(|(_, e)| *e & PRESENT != 0) {
            match (entry & FRAME) as usize {
                0 => return Err(Errno(libc::EPERM)),
                frame => tally.page(&frames.page(page * PAGE, frame)?),
            }
        }
        at += n;
    }
    tally.end();
    Ok(tally)
}
