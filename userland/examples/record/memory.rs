//! The private anonymous memory of the program: where it is and which pages are there.
use std::collections::{BTreeMap, BTreeSet};
use userland::trace::{Pages, Step};

/// What is known of it, and what happened to it.
#[derive(Default)]
pub struct Memory {
    /// By its first page, each stretch with its end and its protection.
    areas: BTreeMap<u64, (u64, i32)>,
    present: BTreeSet<u64>,
    pub steps: Vec<Step>,
}

impl Memory {
    /// mmap of anonymous memory.
    pub fn map(&mut self, pages: Pages, prot: i32) {
        self.forget(pages);
        self.areas.insert(pages.at, (pages.end(), prot));
        self.steps.push(Step::Map(pages, prot));
    }

    /// munmap, or something else that is mapped there now.
    pub fn unmap(&mut self, pages: Pages) {
        let parts = self.parts(pages);
        self.forget(pages);
        self.steps
            .extend(parts.into_iter().map(|(part, _)| Step::Unmap(part)));
    }

    /// mprotect.
    pub fn protect(&mut self, pages: Pages, prot: i32) {
        for (part, _) in self.parts(pages) {
            self.cut(part);
            self.areas.insert(part.at, (part.end(), prot));
            self.steps.push(Step::Protect(part, prot));
        }
    }

    /// madvise.
    pub fn advise(&mut self, pages: Pages, advice: i32) {
        for (part, _) in self.parts(pages) {
            if advice == libc::MADV_DONTNEED {
                self.present
                    .retain(|page| !(part.at..part.end()).contains(page));
            }
            self.steps.push(Step::Advise(part, advice));
        }
    }

    /// mremap of what is anonymous from its first page on.
    pub fn remap(&mut self, from: Pages, to: Pages) {
        let Some((part, prot)) = self
            .parts(from)
            .into_iter()
            .next()
            .filter(|(p, _)| *p == from)
        else {
            return self.unmap(from);
        };
        let kept = self
            .present
            .range(part.at..part.at + part.count.min(to.count));
        let kept: Vec<u64> = kept.map(|page| page - from.at + to.at).collect();
        self.forget(from);
        self.forget(to);
        self.present.extend(kept);
        self.areas.insert(to.at, (to.end(), prot));
        self.steps.push(Step::Move(from, to));
    }

    /// Looks for pages that came since the last time, where anything may be written.
    pub fn look(
        &mut self,
        is_there: impl Fn(Pages) -> std::io::Result<Vec<bool>>,
    ) -> std::io::Result<()> {
        let written = |prot: &i32| prot & libc::PROT_WRITE != 0;
        let areas: Vec<Pages> = self
            .areas
            .iter()
            .filter(|(_, (_, prot))| written(prot))
            .map(|(at, (end, _))| Pages {
                at: *at,
                count: end - at,
            })
            .collect();
        for area in areas {
            let there = (area.at..).zip(is_there(area)?).filter(|(_, there)| *there);
            let new: Vec<u64> = there
                .map(|(page, _)| page)
                .filter(|page| !self.present.contains(page))
                .collect();
            self.present.extend(&new);
            for run in new.chunk_by(|page, next| page + 1 == *next) {
                let count = run.len() as u64;
                self.steps.push(Step::Touch(Pages { at: run[0], count }));
            }
        }
        Ok(())
    }

    /// What of these pages is known, each part with its protection.
    fn parts(&self, pages: Pages) -> Vec<(Pages, i32)> {
        let part = |(at, (end, prot)): (&u64, &(u64, i32))| {
            let (at, end) = ((*at).max(pages.at), (*end).min(pages.end()));
            (at < end).then(|| {
                (
                    Pages {
                        at,
                        count: end - at,
                    },
                    *prot,
                )
            })
        };
        self.areas.range(..pages.end()).filter_map(part).collect()
    }

    /// Nothing is there any more.
    fn forget(&mut self, pages: Pages) {
        self.cut(pages);
        self.present
            .retain(|page| !(pages.at..pages.end()).contains(page));
    }

    /// Takes these pages out of the areas.
    fn cut(&mut self, pages: Pages) {
        let touched: Vec<u64> = self
            .areas
            .range(..pages.end())
            .filter(|(_, (end, _))| *end > pages.at)
            .map(|(at, _)| *at)
            .collect();
        for at in touched {
            let Some((end, prot)) = self.areas.remove(&at) else {
                continue;
            };
            if at < pages.at {
                self.areas.insert(at, (pages.at, prot));
            }
            if end > pages.end() {
                self.areas.insert(pages.end(), (end, prot));
            }
        }
    }
}
