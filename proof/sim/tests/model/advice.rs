//! madvise, mlock and clear_refs: what the model expects of each, and what really happens.

use super::*;

impl Model {
    /// How far advice goes: to the first page that is `refused`; and what it answers.
    pub(super) fn reach(
        &self,
        at: u64,
        len: u64,
        refused: impl Fn(&Page) -> bool,
    ) -> (std::ops::Range<u64>, Result<(), Error>) {
        let mut inside = self.pages.range(at..at + len);
        match inside.find(|(_, page)| refused(page)) {
            Some((n, _)) => (at..*n, Err(Error::Inval)),
            None if self.covers(at..at + len) => (at..at + len, Ok(())),
            None => (at..at + len, Err(Error::NoMem)),
        }
    }

    /// Populating writes, which ends write protection, to some of these pages.
    pub(super) fn forget_protection(&mut self, at: u64, len: u64) {
        let pages = self.pages.range_mut(at..at + len);
        pages.for_each(|(_, page)| page.protected = None);
    }

    /// Which pages MADV_DONTNEED or MADV_FREE drops; the second does it at once here. Locked ones
    /// stay.
    pub(super) fn dropped(
        &self,
        at: u64,
        len: u64,
        advice: Advice,
    ) -> (std::ops::Range<u64>, Result<(), Error>) {
        let free = advice == Advice::Free;
        self.reach(at, len, |page| {
            page.area.locked || free && !matches!(page.backing, Backed::Anon(_))
        })
    }
}

impl<F: PteFormat> Bench<F> {
    pub(super) fn advise(
        &self,
        process: &Process<F>,
        model: &mut Model,
        (at, len): (u64, u64),
        advice: Advice,
    ) {
        let result = || process.advise(self.start(at), self.bytes(len), advice);
        let set: fn(&mut Page) = match advice {
            Advice::DontNeed | Advice::Free => {
                let (gone, expected) = model.dropped(at, len, advice);
                assert_eq!(result(), expected);
                for (_, page) in model.pages.range_mut(gone) {
                    let protected = page.protected;
                    page.discard();
                    // Memory of huge pages is that of objects.
                    if self.shape.huge {
                        page.protected = protected;
                    }
                }
                return;
            }
            Advice::DontFork => |page| page.area.absent_in_child = true,
            Advice::DoFork => |page| page.area.absent_in_child = false,
            Advice::WipeOnFork => |page| page.area.zero_in_child = true,
            Advice::KeepOnFork => |page| page.area.zero_in_child = false,
            _ => return self.advise_unseen(process, model, (at, len), advice),
        };
        let wipe = advice == Advice::WipeOnFork;
        let (range, expected) = model.reach(at, len, |page| {
            wipe && !matches!(page.backing, Backed::Anon(_))
        });
        assert_eq!(result(), expected);
        model.pages.range_mut(range).for_each(|(_, page)| set(page));
    }

    pub(super) fn advise_guards(
        &self,
        process: &Process<F>,
        model: &mut Model,
        (at, len): (u64, u64),
        install: bool,
    ) {
        let advice = match install {
            true => Advice::GuardInstall,
            false => Advice::GuardRemove,
        };
        let (range, expected) = model.reach(at, len, |page| install && page.area.locked);
        let result = process.advise(self.start(at), self.bytes(len), advice);
        assert_eq!(result, expected);
        for (_, page) in model.pages.range_mut(range) {
            page.guard = install;
            if install {
                page.discard();
                page.protected = Some(false);
            }
        }
    }

    /// Advice that changes nothing that the model knows.
    fn advise_unseen(
        &self,
        process: &Process<F>,
        model: &mut Model,
        (at, len): (u64, u64),
        advice: Advice,
    ) {
        let all =
            |f: &dyn Fn(&Page) -> bool| (at..at + len).all(|n| model.pages.get(&n).is_some_and(f));
        let populates = matches!(advice, Advice::PopulateRead | Advice::PopulateWrite);
        // Populating copies what is an object's.
        if populates
            && !all(&|p| p.prot.contains(RW) && matches!(p.backing, Backed::Anon(_)) && !p.guard)
        {
            return;
        }
        let result = process.advise(self.start(at), self.bytes(len), advice);
        if populates {
            model.forget_protection(at, len);
        }
        let cold = matches!(advice, Advice::Cold | Advice::PageOut);
        let (_, expected) = model.reach(at, len, |page| cold && page.area.locked);
        assert_eq!(result, expected);
        if cold {
            // A PMD leaf that reaches out of the range has one bit for all of it.
            let huge = |n| self.start(n).align_down(PMD_ORDER.bytes());
            let range = VirtRange::new(huge(at), huge(at + len) + PMD_ORDER.bytes());
            self.world
                .sim
                .forgive(process.root(), range, Attrs::ACCESSED);
        }
    }

    /// Locks, and populates if it says so and nothing there is an object's, of which copies would
    /// be made.
    pub(super) fn lock(
        &self,
        process: &Process<F>,
        model: &mut Model,
        (at, len): (u64, u64),
        on_fault: bool,
    ) {
        let inside = || model.pages.range(at..at + len).map(|(_, page)| page);
        let on_fault = on_fault || inside().any(|page| !matches!(page.backing, Backed::Anon(_)));
        let barred = inside().any(|page| page.prot.is_none() || page.guard);
        let whole = model.covers(at..at + len);
        let expected = if whole && (on_fault || !barred) {
            Ok(())
        } else {
            Err(Error::NoMem)
        };
        let result = process.mlock(self.start(at), self.bytes(len), true, on_fault);
        assert_eq!(result, expected);
        model.set_locked(at, len, true);
        model.forget_protection(at, len);
    }

    pub(super) fn unlock(&self, process: &Process<F>, model: &mut Model, at: u64, len: u64) {
        let whole = model.covers(at..at + len);
        let expected = if whole { Ok(()) } else { Err(Error::NoMem) };
        let result = process.mlock(self.start(at), self.bytes(len), false, false);
        assert_eq!(result, expected);
        model.set_locked(at, len, false);
    }

    /// Each page that was written says so; then none does.
    pub(super) fn clear_dirty(&mut self, p: usize) {
        self.check_written();
        let Some((process, model)) = &mut self.processes[p] else {
            return;
        };
        process.clear_soft_dirty().unwrap();
        model
            .pages
            .values_mut()
            .for_each(|page| page.written = false);
        let Some((process, model)) = &self.processes[p] else {
            return;
        };
        for n in model.pages.keys() {
            let dirty = process.page_info(self.spot(*n)).soft_dirty;
            assert!(!dirty, "page {n} counts as written after clear_refs");
        }
    }

    /// What must count as written does.
    pub(super) fn check_written(&self) {
        for (process, model) in self.processes.iter().flatten() {
            for n in model
                .pages
                .iter()
                .filter(|(_, page)| page.written)
                .map(|(n, _)| n)
            {
                let dirty = process.page_info(self.spot(*n)).soft_dirty;
                assert!(dirty, "page {n} was written and does not count as such");
            }
        }
    }
}

impl Model {
    /// As far as the first hole.
    fn set_locked(&mut self, at: u64, len: u64, locked: bool) {
        for n in at..at + len {
            let Some(page) = self.pages.get_mut(&n) else {
                return;
            };
            page.area.locked = locked;
        }
    }
}
