//! Pins beside the model: while the page stays mapped where it was pinned for long, pin and process
//! see the same.

use super::steps::Step;
use super::{Backed, Bench};
use arch_sim::Sim;
use mm::Advice;
use mm::arch::PteFormat;
use mm::fault::{Access, Pin};

/// A pin, and what the model knows of it.
pub(super) struct Pinned<F: PteFormat> {
    pin: Pin<Sim<F>>,
    /// What it holds, if that can be known: the page is private, and the pin long-term.
    byte: Option<u8>,
    /// Process and page where it is mapped, if it still is.
    at: Option<(usize, u64)>,
}

impl<F: PteFormat> Bench<F> {
    /// Pins page `n` of a process, if it may be; the pages that can be known are private.
    pub(super) fn pin(&mut self, p: usize, n: u64, long_term: Option<Access>) {
        let va = self.spot(n);
        let Some((process, model)) = &mut self.processes[p] else {
            return;
        };
        model.grow_stack(n);
        let pin = match long_term {
            Some(access) => process.pin_long_term(va, access),
            None => process.pin(va),
        };
        let Ok(pin) = pin else {
            return;
        };
        let page = model.pages.get_mut(&n).expect("it was pinned");
        match long_term {
            Some(Access::Write) => page.protected = Some(false),
            // It may have been copied.
            Some(_) => page.protected = page.protected.filter(|protected| !protected),
            None => {}
        }
        if let (true, Backed::Private(o, index, own @ None)) =
            (long_term.is_some(), &mut page.backing)
        {
            *own = Some(self.contents[*o][*index as usize]);
        }
        let byte = private(page.backing).filter(|_| long_term.is_some());
        let at = byte.map(|_| (p, n));
        self.pins.push(Pinned { pin, byte, at });
    }

    /// Before a step: a pin whose page it takes away keeps what it has; where that is not sure,
    /// nothing is known of it any more.
    pub(super) fn detach(&mut self, step: &Step) {
        for pinned in &mut self.pins {
            let Some((p, n)) = pinned.at else {
                continue;
            };
            let within = |of: u8, at: u64, len| usize::from(of) == p && (at..at + len).contains(&n);
            let processes = &self.processes;
            let dropped = |of: u8, at: u64, len, advice| {
                let process = processes[usize::from(of)].as_ref();
                let gone = process.map(|(_, model)| model.dropped(at, len, advice).0);
                usize::from(of) == p && gone.is_some_and(|gone| gone.contains(&n))
            };
            let (goes, may_go) = match *step {
                Step::Exit(of) => (of != 0 && usize::from(of) == p, false),
                Step::Map(of, at, len, ..) | Step::Unmap(of, at, len) => {
                    (within(of, at, len), false)
                }
                Step::DontNeed(of, at, len) => (dropped(of, at, len, Advice::DontNeed), false),
                Step::Advise(of, at, len, Advice::Free) => {
                    (dropped(of, at, len, Advice::Free), false)
                }
                Step::Guard(of, at, len, true) => (false, within(of, at, len)),
                Step::Edge(of, _, at, _) => (false, within(of, at, 1)),
                Step::Remap(of, remap) => {
                    let target = |to| within(of, to, remap.new_len);
                    let goes = within(of, remap.from, remap.len) || remap.to.is_some_and(target);
                    (false, goes)
                }
                Step::Truncate(..) => (false, true),
                // Of huge pages the private copies go, too.
                Step::Punch(o, index) if self.shape.huge => {
                    let model = processes[p].as_ref().map(|(_, model)| model);
                    let backing = model.and_then(|model| Some(&model.pages.get(&n)?.backing));
                    let punched = (usize::from(o), index);
                    let goes = match backing {
                        Some(Backed::Private(o, i, _)) => (*o, *i) == punched,
                        _ => false,
                    };
                    (false, goes)
                }
                _ => (false, false),
            };
            if goes || may_go {
                pinned.at = None;
            }
            if may_go {
                pinned.byte = None;
            }
        }
    }

    /// After a step: what the process has written, the pin sees; and nothing else.
    pub(super) fn check_pins(&mut self) {
        for pinned in &mut self.pins {
            if let Some((p, n)) = pinned.at {
                let (_, model) = self.processes[p].as_ref().expect("it has not ended");
                pinned.byte = private(model.pages[&n].backing);
            }
            let mut seen = [0];
            pinned.pin.read(1234, &mut seen);
            assert!(
                pinned.byte.is_none_or(|byte| byte == seen[0]),
                "a pin holds {}, not {:?}, of {:?}",
                seen[0],
                pinned.byte,
                pinned.at
            );
        }
    }
}

/// The byte of a page that the process has for itself.
fn private(backing: Backed) -> Option<u8> {
    match backing {
        Backed::Anon(byte) | Backed::Private(_, _, Some(byte)) => Some(byte),
        _ => None,
    }
}
