//! What a pause of a verb allows: each verb that pauses beside each that may come meanwhile, from
//! one of its first pauses on, on two CPUs. Afterwards every access ends, what a file has no more
//! is mapped nowhere, what was sealed stays as it was, and everything is checked.

mod common;

use arch_sim::{Options, Process, Sim, World};
use common::*;
use mm::addr::{PAGE_SIZE, VirtAddr, VirtRange};
use mm::arch::PteFormat;
use mm::fault::{Access, Resolution};
use mm::object::Object;
use mm::switch::{ForkBy, Switch};
use mm::vma::{Prot, VmaFlags};
use mm::{Advice, Content, Error, Offline, Registration};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

/// Tables' worth of memory in each area, of which a page each is touched.
const TABLES: u64 = 4;
const TABLE: u64 = 512;
const PAGES: u64 = TABLES * TABLE;
/// Areas, by the number of their first page: private memory, an object's, private copies of its
/// pages, and private memory with a monitor. Each may move by [`AWAY`], up or down.
const PRIVATE: u64 = AWAY;
const SHARED: u64 = AWAY + 2 * PAGES;
const COPIES: u64 = AWAY + 4 * PAGES;
const MONITORED: u64 = AWAY + 6 * PAGES;
const AREAS: [u64; 4] = [MONITORED, COPIES, SHARED, PRIVATE];
const AWAY: u64 = 8 * PAGES;
const MONITOR: u16 = 7;
/// What clears accessed bits.
const AGES: [&str; 2] = ["page out", "reclaim"];
/// Pauses of a verb that are tried.
const PAUSES: [usize; 2] = [1, 3];

/// The touched page of a table of an area, by number.
fn spot(area: u64, table: u64) -> u64 {
    area + table * TABLE + table % 5
}

/// A process, and the object that it maps.
struct Scene<F: PteFormat> {
    w: World<F>,
    p: Process<F>,
    object: Arc<Object<Sim<F>>>,
}

/// What a verb has made: the child of a fork.
type Verb<F> = fn(&Scene<F>) -> Option<Process<F>>;

/// Verbs that pause.
fn verbs<F: PteFormat>() -> Vec<(&'static str, Verb<F>)> {
    fn bytes(pages: u64) -> u64 {
        pages * PAGE_SIZE
    }
    fn with<F: PteFormat>(s: &Scene<F>, f: impl Fn(VirtAddr, u64)) -> Option<Process<F>> {
        for area in AREAS {
            f(page(area), bytes(PAGES));
            let _ = s;
        }
        None
    }
    /// Between two calls another one may have moved it, or unmapped it.
    fn moves<F: PteFormat>(s: &Scene<F>, from: VirtAddr, len: u64, to: VirtAddr) {
        let result =
            s.p.remap(from, len, len, FIXED, to, &mut Default::default());
        assert!(
            result == Ok(to) || result == Err(Error::Fault),
            "{result:?}"
        );
    }
    vec![
        ("fork", |s| Some(s.w.adopt(s.p.fork().unwrap()))),
        ("fork by tables", |s| {
            s.w.mm.switches().set(Switch::Fork, ForkBy::Share as u32);
            Some(s.w.adopt(s.p.fork().unwrap()))
        }),
        ("munmap", |s| with(s, |at, len| s.p.unmap(at, len).unwrap())),
        ("mremap", |s| {
            with(s, |at, len| moves(s, at, len, at + bytes(AWAY) + PAGE_SIZE))
        }),
        ("mremap down", |s| {
            with(s, |at, len| {
                let away = at + bytes(AWAY) + PAGE_SIZE;
                moves(s, at, len, away);
                moves(s, away, len, at);
            })
        }),
        ("mprotect", |s| {
            with(s, |at, len| {
                let result = s.p.protect(at, len, Prot::READ);
                // Between two calls another one may have unmapped the next area.
                assert!(matches!(result, Ok(()) | Err(Error::NoMem)), "{result:?}");
            })
        }),
        ("mmap over", |s| {
            with(s, |at, len| map(&s.p, at, len / PAGE_SIZE, RW))
        }),
        ("unregister", |s| {
            s.p.userfault_unregister(pages(MONITORED, PAGES), MONITOR)
                .unwrap();
            None
        }),
        ("register", |s| {
            register(
                &s.p,
                pages(SHARED, PAGES),
                VmaFlags::UFFD_MISSING | VmaFlags::UFFD_WP,
            );
            None
        }),
        ("guard", |s| {
            let all = bytes(PAGES);
            s.p.advise(page(PRIVATE), all, Advice::GuardInstall)
                .unwrap();
            None
        }),
        ("ftruncate", |s| {
            s.object.truncate(2 * TABLE * PAGE_SIZE);
            None
        }),
        ("hole", |s| {
            s.object.punch(0, PAGES * PAGE_SIZE);
            None
        }),
        ("page out", |s| {
            with(s, |at, len| {
                let _ = s.p.advise(at, len, Advice::PageOut);
            })
        }),
        ("reclaim", |s| {
            s.w.mm.reclaim(PAGES);
            None
        }),
        ("mlock", |s| {
            with(s, |at, _| {
                let _ = s.p.mlock(at, 3 * PAGE_SIZE, true, false);
            })
        }),
        ("soft offline", |s| {
            (0..TABLES).for_each(|n| {
                let _ = s.p.offline(page(spot(PRIVATE, n)), Offline::Soft);
            });
            None
        }),
    ]
}

/// Tells the second CPU that it is its turn.
struct Begin(Sender<()>);

impl Drop for Begin {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

/// What comes meanwhile; `Some` is whether the object is sealed.
type Other<F> = fn(&Scene<F>) -> Option<bool>;

fn others<F: PteFormat>() -> Vec<(&'static str, Other<F>)> {
    fn offline<F: PteFormat>(s: &Scene<F>, number: u64, how: Offline) -> Option<bool> {
        let result = s.p.offline(page(number), how);
        let expected = [Error::Fault, Error::Busy, Error::HwPoison];
        assert!(
            result.is_ok_and(|size| size == PAGE_SIZE) || expected.contains(&result.unwrap_err())
        );
        None
    }
    fn fill<F: PteFormat>(
        s: &Scene<F>,
        number: u64,
        content: Content<'_>,
        protect: bool,
    ) -> Option<bool> {
        let _ =
            s.p.userfault_fill(pages(number, 1), page(number), content, protect);
        None
    }
    vec![
        ("mremap down", |s| {
            // Where a search in the order of addresses has been.
            let (from, len) = (page(COPIES), PAGES * PAGE_SIZE);
            let to = page(COPIES - AWAY);
            let _ =
                s.p.remap(from, len, len, FIXED, to, &mut Default::default());
            None
        }),
        ("munmap", |s| {
            s.p.unmap(page(SHARED), PAGES * PAGE_SIZE).unwrap();
            None
        }),
        ("ftruncate", |s| {
            s.object.truncate(TABLE * PAGE_SIZE);
            None
        }),
        ("hole", |s| {
            s.object.punch(0, PAGES * PAGE_SIZE);
            None
        }),
        ("seal", |s| Some(s.object.seal_writes())),
        ("hwpoison", |s| offline(s, spot(PRIVATE, 3), Offline::Hard)),
        ("hwpoison of a file", |s| {
            offline(s, spot(SHARED, 3), Offline::Hard)
        }),
        ("soft offline", |s| {
            offline(s, spot(PRIVATE, 3), Offline::Soft)
        }),
        ("soft offline of a file", |s| {
            offline(s, spot(SHARED, 3), Offline::Soft)
        }),
        ("collapse", |s| {
            let _ =
                s.p.advise(page(SHARED + TABLE), TABLE * PAGE_SIZE, Advice::Collapse);
            None
        }),
        ("split", |s| {
            s.p.split_deferred();
            None
        }),
        ("fill", |s| {
            fill(s, MONITORED + 3 * TABLE + 9, Content::Zeros, true)
        }),
        ("fill with bytes", |s| {
            fill(
                s,
                MONITORED + 3 * TABLE + 9,
                Content::Bytes(&[4; PAGE_SIZE as usize]),
                true,
            )
        }),
        ("poison", |s| {
            fill(s, MONITORED + 3 * TABLE + 9, Content::Poison, false)
        }),
        ("move", |s| {
            let from = pages(spot(PRIVATE, 3), 1);
            let _ =
                s.p.userfault_move(page(MONITORED + 3 * TABLE + 9), from, MONITOR, true);
            None
        }),
        ("protect", |s| {
            let _ = s.p.userfault_protect(pages(MONITORED, PAGES), true);
            None
        }),
        ("fault", |s| {
            for area in AREAS {
                let _ = s.w.store(1, &s.p, page(spot(area, 3) + 9), 3);
            }
            None
        }),
        ("page out", |s| {
            let _ =
                s.p.advise(page(PRIVATE), PAGES * PAGE_SIZE, Advice::PageOut);
            None
        }),
        ("pin", |s| {
            drop(s.p.pin(page(spot(PRIVATE, 3))));
            drop(s.p.pin_long_term(page(spot(SHARED, 3)), Access::Write));
            None
        }),
    ]
}

fn pages(first: u64, n: u64) -> VirtRange {
    VirtRange::new(page(first), page(first + n))
}

fn register<F: PteFormat>(p: &Process<F>, range: VirtRange, flags: VmaFlags) {
    let monitor = MONITOR;
    p.userfault_register(range, Registration { monitor, flags })
        .unwrap();
}

impl<F: PteFormat> Scene<F> {
    fn new() -> Self {
        let w = World::<F>::new(Options {
            frames: 4096,
            cpus: 2,
            step: 8,
            ..Options::default()
        });
        sizes(&w, &[]);
        let p = w.process();
        p.share().unwrap();
        let object = Object::new(&w.mm);
        object.set_len(PAGES * PAGE_SIZE);
        map(&p, page(PRIVATE), PAGES, RW);
        map(&p, page(MONITORED), PAGES, RW);
        p.map(of_object(
            &object,
            0,
            page(SHARED),
            PAGES,
            RW,
            VmaFlags::SHARED,
        ))
        .unwrap();
        let private = VmaFlags::empty();
        p.map(of_object(&object, 0, page(COPIES), PAGES, RW, private))
            .unwrap();
        for area in AREAS {
            (0..TABLES).for_each(|n| w.store(0, &p, page(spot(area, n)), n as u8 + 1).unwrap());
        }
        let modes = VmaFlags::UFFD_MISSING | VmaFlags::UFFD_WP;
        register(&p, pages(MONITORED, PAGES), modes);
        Scene { w, p, object }
    }

    /// Runs `verb`, and `other` on a second CPU from its `nth` pause on, or after it.
    fn beside(
        &self,
        verb: Verb<F>,
        other: Other<F>,
        nth: usize,
    ) -> (Option<Process<F>>, Option<bool>) {
        let is_over = Arc::new(AtomicBool::new(false));
        let (begin, begun) = channel();
        let begun = Mutex::new(begun);
        let made = Mutex::new((None, None));
        let sim = &self.w.sim;
        sim.together(2, |cpu| match cpu {
            0 => {
                // Also when the verb fails.
                let _after_it = Begin(begin.clone());
                let (begin, is_over, machine) = (begin.clone(), is_over.clone(), sim.clone());
                let (this, mut pauses) = (std::thread::current().id(), 0);
                sim.in_pauses(Some(Box::new(move || {
                    pauses += usize::from(std::thread::current().id() == this);
                    if pauses == nth {
                        pauses += 1;
                        let _ = begin.send(());
                        // Until it waits for the verb, or is over.
                        (0..50)
                            .take_while(|_| !is_over.load(SeqCst))
                            .for_each(|_| machine.relax());
                    }
                    false
                })));
                made.lock().unwrap().0 = verb(self);
            }
            _ => {
                let _ = begun.lock().unwrap().recv();
                let sealed = other(self);
                is_over.store(true, SeqCst);
                made.lock().unwrap().1 = sealed;
            }
        });
        sim.in_pauses(None);
        made.into_inner().unwrap()
    }

    /// Every access in a space ends, here and where areas may have moved to; of the object only
    /// what it has is there.
    fn access(&self, space: &Process<F>) {
        let len = self.object.len() / PAGE_SIZE;
        for moved in [0, AWAY as i64 + 1, -(AWAY as i64)] {
            let at = |n: u64| page(n.wrapping_add_signed(moved));
            for (area, n) in AREAS
                .into_iter()
                .flat_map(|area| (0..TABLES).map(move |n| (area, spot(area, n))))
            {
                let found = self.w.load(0, space, at(n));
                let stored = self.w.store(1, space, at(n), 9);
                let is_file = space
                    .vma_at(at(n))
                    .is_some_and(|vma| vma.object_page(at(n)).is_some());
                if [SHARED, COPIES].contains(&area) && is_file && n - area >= len {
                    let gone = Err(Resolution::Bus);
                    assert!(
                        found == gone || found == Err(Resolution::Userfault),
                        "{found:?}"
                    );
                    assert_ne!(stored, Ok(()));
                }
            }
        }
    }

    fn contents(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.object.len() as usize];
        self.object.read_at(0, &mut bytes);
        bytes
    }
}

fn each_verb_beside_each_other<F: PteFormat>() {
    for (what, verb) in verbs::<F>() {
        for (meanwhile, other) in others::<F>() {
            for nth in PAUSES {
                let run = || {
                    let s = Scene::<F>::new();
                    let (child, sealed) = s.beside(verb, other, nth);
                    let before = (sealed == Some(true)).then(|| s.contents());
                    let spaces: Vec<_> = [&s.p].into_iter().chain(&child).collect();
                    let checked: Vec<&Space<F>> = spaces.iter().map(|p| &***p).collect();
                    if AGES.contains(&what) || AGES.contains(&meanwhile) {
                        checked.iter().for_each(|space| s.w.forget_accesses(space));
                    }
                    s.w.check(&checked, &[&s.object]);
                    spaces.iter().for_each(|space| s.access(space));
                    s.w.check(&checked, &[&s.object]);
                    assert_eq!(s.w.mm.pins(), 0);
                    if let Some(before) = before {
                        assert!(before == s.contents(), "what is sealed has changed");
                    }
                };
                let result = std::panic::catch_unwind(run);
                assert!(result.is_ok(), "{what}, in pause {nth} {meanwhile}");
            }
        }
    }
}

on_both_formats! { each_verb_beside_each_other }
