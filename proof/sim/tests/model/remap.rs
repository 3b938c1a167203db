//! mremap: what the model expects, and what really happens.

use super::steps::Remap;
use super::*;
use mm::RemapFlags;
use std::ops::Range;

impl<F: PteFormat> Bench<F> {
    pub(super) fn remap(&self, process: &Process<F>, model: &mut Model, remap: &Remap) {
        let Remap {
            from,
            len,
            to,
            keep,
            ..
        } = *remap;
        // What is kept is unlocked as far as its mapping goes, which the model does not know.
        if keep
            && model
                .pages
                .range(from..from + len)
                .any(|(_, page)| page.area.locked)
        {
            return;
        }
        if to.is_some() && self.stops_at_a_monitor(process, from..from + len) {
            return;
        }
        let expected = self.expect_remap(process, model, remap);
        let flags = match (to, keep) {
            (None, _) => RemapFlags::empty(),
            (Some(_), false) => FIXED,
            (Some(_), true) => FIXED | RemapFlags::DONTUNMAP,
        };
        let target = self.start(to.unwrap_or(0));
        let (old, new) = (self.bytes(len), self.bytes(remap.new_len));
        let result = process.remap(
            self.start(from),
            old,
            new,
            flags,
            target,
            &mut Default::default(),
        );
        assert_eq!(result, expected);
        if result.is_ok() {
            model.remap(remap);
        }
    }

    /// Whether a move of these pages, of several areas, ends at one with a monitor. The model does
    /// not know how far it comes.
    fn stops_at_a_monitor(&self, process: &Process<F>, pages: Range<u64>) -> bool {
        let area = |n| process.vma_at(self.start(n));
        let several =
            area(pages.start).is_some_and(|first| first.range.end < self.start(pages.end));
        several && pages.filter_map(area).any(|area| area.monitor != 0)
    }

    fn expect_remap(
        &self,
        process: &Process<F>,
        model: &Model,
        remap: &Remap,
    ) -> Result<VirtAddr, Error> {
        let Remap {
            from,
            len,
            new_len,
            to,
            ..
        } = *remap;
        if to.is_some_and(|to| from < to + new_len && to < from + len) {
            return Err(Error::Inval);
        }
        let area = process.vma_at(self.start(from)).ok_or(Error::Fault)?;
        assert!(model.pages.contains_key(&from), "page {from} is mapped");
        // Only what is as long as before, or becomes shorter where it is, may be several mappings.
        let one = match to {
            Some(_) => len != new_len,
            None => len < new_len,
        };
        if one && self.start(from + len.min(new_len)) > area.range.end {
            return Err(Error::Fault);
        }
        let room = self.start(from + len) == area.range.end
            && model
                .pages
                .range(from + len..from + new_len.max(len))
                .next()
                .is_none();
        match to {
            None if len < new_len && !room => Err(Error::NoMem),
            to => Ok(self.start(to.unwrap_or(from))),
        }
    }
}

impl Model {
    fn remap(&mut self, remap: &Remap) {
        let Remap {
            from,
            len,
            new_len,
            to,
            keep,
        } = *remap;
        let Some(first) = self.pages.get(&from).copied() else {
            unreachable!("it was mapped");
        };
        for n in new_len..len {
            self.pages.remove(&(from + n));
        }
        if let Some(to) = to {
            for n in 0..len.min(new_len) {
                // Where nothing is there is nothing to move, and what is at the target stays.
                let Some(page) = self.pages.get(&(from + n)).copied() else {
                    continue;
                };
                let moved = Page {
                    written: true,
                    protected: Some(false),
                    ..page
                };
                self.pages.insert(to + n, moved);
                if keep {
                    let left = self.pages.get_mut(&(from + n));
                    left.into_iter().for_each(|page| {
                        page.discard();
                        page.guard = false;
                        page.protected = Some(false);
                    });
                } else {
                    self.pages.remove(&(from + n));
                }
            }
        }
        for n in len..new_len {
            let page = Page::new(first.prot, first.backing.later(n), first.area);
            self.pages.insert(to.unwrap_or(from) + n, page);
        }
    }
}
