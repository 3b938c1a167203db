//! What can be done, and doing it.
use userland::controls::Controls;
use userland::sys::mem::{self, ANON, PAGE, RW};
use userland::sys::{Errno, fault};

/// Where the scene is: above everything else, so that its page tables from the root down are its
/// own.
pub const START: usize = 0x2000_0000_0000;
/// How many pages it has, 64 MiB.
pub const PAGES: usize = 16384;

/// Pages from the first one, as many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pages {
    first: usize,
    count: usize,
}

impl Pages {
    /// `A-B` with both ends, or `A`.
    fn parse(text: &str) -> Option<Pages> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last) = (first.parse().ok()?, last.parse().ok()?);
        (first <= last && last < PAGES).then(|| Pages {
            first,
            count: last - first + 1,
        })
    }
    fn at(self) -> usize {
        START + self.first * PAGE
    }
    fn len(self) -> usize {
        self.count * PAGE
    }
    fn each(self) -> impl Iterator<Item = usize> {
        (self.at()..self.at() + self.len()).step_by(PAGE)
    }
}

/// A step of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Size(usize),
    Map(Pages),
    Write(Pages),
    Read(Pages),
    Unmap(Pages),
    Protect(Pages),
    Allow(Pages),
    Move(Pages, usize),
    Advise(Pages, i32),
}

impl Step {
    /// From its words; an error in words.
    pub fn parse(words: &[&str]) -> Result<Step, String> {
        let pages = |text: &str| {
            Pages::parse(text)
                .ok_or_else(|| format!("no pages {text}: such as 0-15, below {PAGES}"))
        };
        Ok(match *words {
            ["size", kb] => Step::Size(kb.parse().map_err(|_| format!("no size {kb}"))?),
            ["map", some] => Step::Map(pages(some)?),
            ["write", some] => Step::Write(pages(some)?),
            ["read", some] => Step::Read(pages(some)?),
            ["free", some] => Step::Advise(pages(some)?, libc::MADV_DONTNEED),
            ["out", some] => Step::Advise(pages(some)?, libc::MADV_PAGEOUT),
            ["unmap", some] => Step::Unmap(pages(some)?),
            ["protect", some] => Step::Protect(pages(some)?),
            ["allow", some] => Step::Allow(pages(some)?),
            ["move", some, to] => Step::Move(pages(some)?, pages(to)?.first),
            ["collapse", some] => Step::Advise(pages(some)?, mem::MADV_COLLAPSE),
            _ => return Err(format!("no step {}", words.join(" "))),
        })
    }

    /// Does it; an error in words. Sizes are set by who has the controls.
    pub fn perform(self, controls: Option<&Controls>) -> Result<(), String> {
        let fixed = ANON | libc::MAP_FIXED;
        let moving = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        let said = |error: Errno| error.to_string();
        match self {
            Step::Size(kb) => {
                let controls = controls.ok_or("sizes are set for all processes, by the first")?;
                match controls.only(kb).map_err(said)? {
                    true => Ok(()),
                    false => Err(format!("there are no folios of {kb} kB")),
                }
            }
            Step::Map(pages) => mem::mmap(pages.at(), pages.len(), RW, fixed, -1, 0)
                .map(drop)
                .map_err(said),
            Step::Write(pages) => probe(pages, |at| fault::write(at, 1)),
            Step::Read(pages) => probe(pages, |at| fault::read(at).map(drop)),
            Step::Unmap(pages) => mem::munmap(pages.at(), pages.len()).map_err(said),
            Step::Protect(p) => mem::mprotect(p.at(), p.len(), libc::PROT_READ).map_err(said),
            Step::Allow(pages) => mem::mprotect(pages.at(), pages.len(), RW).map_err(said),
            Step::Move(pages, to) => {
                let to = START + to * PAGE;
                mem::mremap(pages.at(), pages.len(), pages.len(), moving, to)
                    .map(drop)
                    .map_err(said)
            }
            Step::Advise(p, advice) => mem::madvise(p.at(), p.len(), advice).map_err(said),
        }
    }
}

/// Touches each page, up to the first that traps.
fn probe(pages: Pages, touch: impl Fn(usize) -> fault::Probe<()>) -> Result<(), String> {
    let trapped = pages.each().find_map(|at| Some((at, touch(at).err()?)));
    match trapped {
        None => Ok(()),
        Some((at, trap)) => Err(format!(
            "page {}: signal {}",
            (at - START) / PAGE,
            trap.signal
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_by_their_words() {
        let parse = |line: &str| Step::parse(&line.split(' ').collect::<Vec<_>>());
        let pages = |first, count| Pages { first, count };
        assert_eq!(parse("write 0-15"), Ok(Step::Write(pages(0, 16))));
        assert_eq!(parse("move 3 512"), Ok(Step::Move(pages(3, 1), 512)));
        for wrong in ["write", "write 5-4", "write 0-16384", "read x", "jump 1"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
