//! `replay`: what the allocator of a compiler asked of the kernel, and the pages to which it wrote,
//! in the order in which it did. The trace is of `rustc -O` at the library regex-lite, made by
//! `cargo run -p userland --example record -- FILE rustc -O ...`.
use crate::meter::{Meter, Sample};
use std::collections::BTreeMap;
use userland::measuring::wrong;
use userland::sys::Result;
use userland::sys::mem::{self, ANON, PAGE};
use userland::trace::{self, Pages, Step};

const TRACE: &[u8] = include_bytes!("rustc.trace");
/// Where the trace's first page is: nothing else is there.
const AT: usize = 1 << 44;

/// A sample for each page that is written to, of a run without checks but those at its end. A run
/// before looks at each page that goes, when it goes, and at each that comes.
pub fn run(meter: &mut Meter) -> Result<Sample> {
    let steps = trace::read(TRACE).ok_or_else(|| wrong("the trace is none"))?;
    let _place = Place(&steps);
    let mut contents = Contents::default();
    for step in &steps {
        contents.before(step)?;
        play(step)?;
        contents.after(step);
    }
    clear(&steps)?;
    let touched = steps.iter().filter(|step| matches!(step, Step::Touch(_)));
    let touched: u64 = touched.map(|step| step.pages().count).sum();
    let sample = meter.timed(touched as usize, || steps.iter().try_for_each(play))?;
    contents.check(Pages {
        at: 0,
        count: u64::MAX,
    })?;
    Ok(sample)
}

fn address(page: u64) -> usize {
    AT + page as usize * PAGE
}

fn len(pages: Pages) -> usize {
    pages.count as usize * PAGE
}

/// Does one step.
fn play(step: &Step) -> Result<()> {
    let pages = step.pages();
    let (at, len) = (address(pages.at), len(pages));
    match *step {
        Step::Map(_, prot) => {
            let flags = ANON | libc::MAP_NORESERVE | libc::MAP_FIXED;
            mem::mmap(at, len, prot, flags, -1, 0).map(drop)
        }
        Step::Unmap(_) => mem::munmap(at, len),
        Step::Protect(_, prot) => mem::mprotect(at, len, prot),
        Step::Advise(_, advice) => mem::madvise(at, len, advice),
        Step::Move(from, to) => {
            let fixed = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
            let flags = if to.at == from.at { 0 } else { fixed };
            mem::mremap(at, len, self::len(to), flags, address(to.at)).map(drop)
        }
        Step::Touch(_) => {
            mem::store_addresses(at, at + len);
            Ok(())
        }
    }
}

/// Unmaps all that a trace ever mapped.
fn clear(steps: &[Step]) -> Result<()> {
    let ends = steps.iter().map(|step| match step {
        Step::Move(from, to) => from.end().max(to.end()),
        other => other.pages().end(),
    });
    mem::munmap(AT, address(ends.max().unwrap_or(1)) - AT)
}

/// Unmapped when dropped.
struct Place<'a>(&'a [Step]);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        // It was empty before, and is none of what the program needs.
        let _ = clear(self.0);
    }
}

/// By its number, where each page was written to that holds what was written.
#[derive(Default)]
struct Contents(BTreeMap<u64, u64>);

impl Contents {
    /// Looks at what the step takes away, and that there is nothing where it writes.
    fn before(&mut self, step: &Step) -> Result<()> {
        let pages = step.pages();
        match *step {
            Step::Map(..) | Step::Unmap(_) => self.take(pages),
            // What may not be read is lost to sight.
            Step::Protect(_, prot) if prot & libc::PROT_READ == 0 => self.take(pages),
            Step::Advise(_, libc::MADV_DONTNEED | libc::MADV_FREE) => self.take(pages),
            Step::Touch(_) => {
                (pages.at..pages.end()).try_for_each(|page| match mem::load(address(page)) {
                    0 => Ok(()),
                    word => Err(wrong(&format!("the new page {page} holds {word:#x}"))),
                })
            }
            _ => Ok(()),
        }
    }

    /// What the step moves or writes.
    fn after(&mut self, step: &Step) {
        match *step {
            Step::Move(from, to) => {
                let moved = self.remove(from).into_iter();
                let kept = moved.filter(|(page, _)| page - from.at < to.count);
                self.remove(to);
                self.0
                    .extend(kept.map(|(page, origin)| (page - from.at + to.at, origin)));
            }
            Step::Touch(pages) => self
                .0
                .extend((pages.at..pages.end()).map(|page| (page, page))),
            _ => {}
        }
    }

    /// Every page among these holds what was written.
    fn check(&self, among: Pages) -> Result<()> {
        let mut known = self.0.range(among.at..among.end());
        let odd = known
            .find(|(page, origin)| !mem::page_is(address(**page), address(**origin) as u64, 0));
        odd.map_or(Ok(()), |(page, _)| {
            Err(wrong(&format!("page {page} is not what was written")))
        })
    }

    /// Looks at these pages for the last time.
    fn take(&mut self, pages: Pages) -> Result<()> {
        self.check(pages)?;
        self.remove(pages);
        Ok(())
    }

    fn remove(&mut self, pages: Pages) -> Vec<(u64, u64)> {
        let known = self.0.range(pages.at..pages.end());
        let known: Vec<(u64, u64)> = known.map(|(page, origin)| (*page, *origin)).collect();
        known.iter().for_each(|(page, _)| _ = self.0.remove(page));
        known
    }
}
