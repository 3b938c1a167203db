//! The verbs that change what is mapped: what the model expects of each, and what really happens.

use super::*;

impl<F: PteFormat> Bench<F> {
    pub(super) fn change(&self, process: &Process<F>, model: &mut Model, step: &Step) {
        match *step {
            Step::Map(_, at, len, prot, what, populate) => {
                let request = match what {
                    What::Anon => anon(Place::Fixed(self.start(at)), len * self.shape.unit, prot),
                    What::Private(o) => of_object(
                        &self.objects[o as usize],
                        at % 3 * self.shape.unit,
                        self.start(at),
                        len * self.shape.unit,
                        prot,
                        VmaFlags::empty(),
                    ),
                    What::Shared(o) => of_object(
                        &self.objects[o as usize],
                        at % 3 * self.shape.unit,
                        self.start(at),
                        len * self.shape.unit,
                        prot,
                        VmaFlags::SHARED,
                    ),
                };
                process
                    .map(mm::space::MapRequest {
                        populate,
                        ..request
                    })
                    .unwrap();
                for n in at..at + len {
                    let index = at % 3 + n - at;
                    let backing = match what {
                        What::Anon => Backed::Anon(0),
                        // Populating writable private memory copies what the object has, as a write of nothing would.
                        What::Private(o) => {
                            let o = o as usize;
                            let first_gone = self.contents[o].len() as u64;
                            let copied =
                                populate && prot.contains(Prot::WRITE) && index < first_gone;
                            Backed::Private(
                                o,
                                index,
                                copied.then(|| self.contents[o][index as usize]),
                            )
                        }
                        What::Shared(o) => Backed::Shared(o as usize, index),
                    };
                    model.pages.insert(n, Page { prot, backing });
                }
            }
            Step::Unmap(_, at, len) => {
                process.unmap(self.start(at), self.bytes(len)).unwrap();
                model.pages.retain(|n, _| !(at..at + len).contains(n));
            }
            Step::Protect(_, at, len, prot) => {
                let hole = (at..at + len).find(|n| !model.pages.contains_key(n));
                let expected = if hole.is_some() {
                    Err(Error::NoMem)
                } else {
                    Ok(())
                };
                assert_eq!(
                    process.protect(self.start(at), self.bytes(len), prot),
                    expected
                );
                for n in at..hole.unwrap_or(at + len) {
                    model.pages.get_mut(&n).expect("before the hole").prot = prot;
                }
            }
            Step::DontNeed(_, at, len) => {
                let hole = (at..at + len).any(|n| !model.pages.contains_key(&n));
                let expected = if hole { Err(Error::NoMem) } else { Ok(()) };
                assert_eq!(
                    process.advise(self.start(at), self.bytes(len), Advice::DontNeed),
                    expected
                );
                for (_, page) in model.pages.range_mut(at..at + len) {
                    match &mut page.backing {
                        Backed::Anon(byte) => *byte = 0,
                        Backed::Private(_, _, own) => *own = None,
                        Backed::Shared(..) => {}
                    }
                }
            }
            Step::Advise(_, at, len, advice) => self.advise(process, model, at, len, advice),
            Step::Remap(_, from, len, to) => self.remap(process, model, from, len, to),
            _ => unreachable!("not a change"),
        }
    }

    /// Advice that changes nothing that the model knows.
    fn advise(&self, process: &Process<F>, model: &Model, at: u64, len: u64, advice: Advice) {
        let all =
            |f: &dyn Fn(&Page) -> bool| (at..at + len).all(|n| model.pages.get(&n).is_some_and(f));
        let populates = matches!(advice, Advice::PopulateRead | Advice::PopulateWrite);
        // Populating copies what is an object's.
        if populates && !all(&|p| p.prot.contains(RW) && matches!(p.backing, Backed::Anon(_))) {
            return;
        }
        let result = process.advise(self.start(at), self.bytes(len), advice);
        assert_eq!(
            result,
            if all(&|_| true) {
                Ok(())
            } else {
                Err(Error::NoMem)
            }
        );
        if advice == Advice::Cold {
            // A PMD leaf that reaches out of the range has one bit for all of it.
            let huge = |n| self.start(n).align_down(PMD_ORDER.bytes());
            let range = VirtRange::new(huge(at), huge(at + len) + PMD_ORDER.bytes());
            self.world
                .sim
                .forgive(process.root(), range, Attrs::ACCESSED);
        }
    }

    fn remap(&self, process: &Process<F>, model: &mut Model, from: u64, len: u64, to: u64) {
        let there = model.pages.contains_key(&from);
        let overlap = from < to + len && to < from + len;
        let expected = match (overlap, there) {
            (true, _) => Err(Error::Inval),
            (_, false) => Err(Error::Fault),
            _ => Ok(self.start(to)),
        };
        let bytes = self.bytes(len);
        assert_eq!(
            process.remap(self.start(from), bytes, bytes, FIXED, self.start(to)),
            expected
        );
        if expected.is_ok() {
            for n in 0..len {
                // Where nothing is there is nothing to move, and what is at the target stays.
                if let Some(page) = model.pages.remove(&(from + n)) {
                    model.pages.insert(to + n, page);
                }
            }
        }
    }
}
