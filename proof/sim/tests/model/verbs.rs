//! The verbs that change what is mapped: what the model expects of each, and what really happens.

use super::*;
use mm::arch::Key;

impl<F: PteFormat> Bench<F> {
    pub(super) fn change(&self, process: &Process<F>, model: &mut Model, step: &Step) {
        match *step {
            Step::Map(_, at, len, prot, what, populate) => {
                let stack = matches!(what, What::Stack);
                let request = match what {
                    What::Anon | What::Stack => {
                        anon(Place::Fixed(self.start(at)), len * self.shape.unit, prot)
                    }
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
                let request = self.in_huge_pages(process, request);
                let grows = VmaFlags::GROWSDOWN;
                let flags = if stack { grows } else { request.flags };
                process
                    .map(mm::MapRequest {
                        populate,
                        flags,
                        ..request
                    })
                    .unwrap();
                let area = Area {
                    stack,
                    ..Area::default()
                };
                for n in at..at + len {
                    let index = at % 3 + n - at;
                    let backing = match what {
                        What::Anon | What::Stack => Backed::Anon(0),
                        // Populating writable private memory copies what the object has, as a write
                        // of nothing would.
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
                    model.pages.insert(n, Page::new(prot, backing, area));
                }
            }
            Step::Unmap(_, at, len) => {
                process.unmap(self.start(at), self.bytes(len)).unwrap();
                model.pages.retain(|n, _| !(at..at + len).contains(n));
            }
            Step::Protect(_, at, len, prot) => self.protect(process, model, (at, len), prot, None),
            Step::ProtectWithKey(_, at, len, prot, key) => {
                self.protect(process, model, (at, len), prot, Some(Key(key)))
            }
            Step::DontNeed(_, at, len) => self.advise(process, model, (at, len), Advice::DontNeed),
            Step::Advise(_, at, len, advice) => self.advise(process, model, (at, len), advice),
            Step::Lock(_, at, len, on_fault) => self.lock(process, model, (at, len), on_fault),
            Step::Unlock(_, at, len) => self.unlock(process, model, at, len),
            Step::Guard(_, at, len, install) => {
                self.advise_guards(process, model, (at, len), install)
            }
            Step::Watch(_, at, len, on) => self.watch(process, model, (at, len), on),
            Step::Remap(_, ref remap) => self.remap(process, model, remap),
            _ => unreachable!("not a change"),
        }
    }
}
