//! A test of the tests: the memory manager with one rule broken, and the checks must say which.
//! `mm::mutant` lists the rules. The models of `tests/shuttle` catch those that take two CPUs.

mod common;

use arch_sim::{At, Options, Process, World};
use common::*;
use mm::addr::{Order, PAGE_SIZE, VirtAddr, VirtRange};
use mm::arch::{Attrs, PteFormat};
use mm::fault::{Access, Resolution};
use mm::hugetlb::DEFAULT;
use mm::mutant::{self, Mutant};
use mm::object::Object;
use mm::switch::{ForkBy, SwapIn, Switch};
use mm::thp::controls::{ShmemSize, SizeEnabled};
use mm::vma::{Backing, Prot, VmaFlags};
use mm::{Advice, MapRequest, Offline, Place, Registration};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex};

type Arm = arch_aarch64::pte::Format;
type X86 = arch_x86_64::pte::Format;

const BLOCK: u64 = 16;
const HUGE: u64 = 512;
/// What the checks say of a missing break-before-make.
const LIVE: &str = "break-before-make";
/// And of a guard that lets something through.
const OPEN: &str = "a guard is open";
const FLUSH: &str = "missed flush";
/// And of pages that userfaultfd protects for nobody.
const ALONE: &str = "no monitor is told";
/// And of memory that is at its new place too early.
const TWICE: &str = "two places";
/// And of entries where no VMA is.
const OUTSIDE: &str = "of them in VMAs";

/// A machine whose folios have this order, and a process that has written each page of an area
/// there.
fn written<F: PteFormat>(order: u8, pages: u64, hardware_ad: bool) -> (World<F>, Process<F>) {
    let world = World::<F>::new(Options {
        frames: 4096,
        hardware_ad,
        // A prefetch sets an accessed bit that was lost.
        prefetch: 0,
        ..Options::default()
    });
    sizes(&world, order);
    let process = world.process();
    map(&process, AT, pages, RW);
    for n in 0..pages {
        let cpu = (n & 1) as usize;
        world.store(cpu, &process, page(n), n as u8).unwrap();
    }
    world.check(&[&process], &[]);
    (world, process)
}

fn sizes<F: PteFormat>(world: &World<F>, order: u8) {
    world.mm.thp().controls.change(|settings| {
        settings.sizes.fill(SizeEnabled::Never);
        settings.sizes[order as usize] = SizeEnabled::Always;
    });
}

/// What to do with an area of so many pages in folios of an order, and how its mutant shows.
struct Case<F: PteFormat> {
    order: u8,
    pages: u64,
    hardware_ad: bool,
    fork: ForkBy,
    rule: &'static str,
    verbs: fn(&World<F>, &Process<F>),
}

/// Two blocks of 64 KiB.
fn blocks<F: PteFormat>(rule: &'static str, verbs: fn(&World<F>, &Process<F>)) -> Case<F> {
    Case {
        order: 4,
        pages: 2 * BLOCK,
        hardware_ad: true,
        fork: ForkBy::Batch,
        rule,
        verbs,
    }
}

/// A table's worth of pages, shared by a fork.
fn shared<F: PteFormat>(rule: &'static str, verbs: fn(&World<F>, &Process<F>)) -> Case<F> {
    Case {
        pages: HUGE,
        fork: ForkBy::Share,
        ..blocks(rule, verbs)
    }
}

/// The same, and then copied.
fn unshared<F: PteFormat>(rule: &'static str) -> Case<F> {
    shared(rule, |w, p| {
        let child = p.fork().unwrap();
        p.unmap(page(5), PAGE_SIZE).unwrap();
        w.check(&[p, &child], &[]);
    })
}

/// One PMD leaf.
fn huge<F: PteFormat>(rule: &'static str, verbs: fn(&World<F>, &Process<F>)) -> Case<F> {
    Case {
        order: 9,
        pages: HUGE,
        ..blocks(rule, verbs)
    }
}

/// Maps a page of a pool, which gets two, and returns its address.
fn hugetlb<F: PteFormat>(w: &World<F>, p: &Process<F>, kind: VmaFlags) -> VirtAddr {
    w.mm.resize_hugetlb(DEFAULT, 2);
    let object = match kind.contains(VmaFlags::SHARED) {
        true => Object::huge(&w.mm, DEFAULT, None),
        false => Object::huge_private(&w.mm, DEFAULT, None, p.root()),
    };
    object.set_len(DEFAULT.bytes());
    let (offset, file) = (0, None);
    let backing = Backing::Object {
        object: object.into(),
        offset,
        file,
    };
    let place = Place::Fixed(page(4 * HUGE));
    p.map(MapRequest {
        backing,
        flags: kind | VmaFlags::HUGETLB,
        ..anon(place, HUGE, RW)
    })
    .unwrap()
}

/// Maps shared memory in folios of an order, and writes to the first one.
fn shmem<F: PteFormat>(
    w: &World<F>,
    p: &Process<F>,
    order: u8,
) -> (Arc<Object<arch_sim::Sim<F>>>, VirtAddr) {
    let controls = &w.mm.thp().controls;
    controls.set_shmem_size(Order(order), ShmemSize::Always);
    let (object, at) = (Object::new(&w.mm), page(4 * HUGE));
    object.set_len(HUGE * PAGE_SIZE);
    p.map(of_object(&object, 0, at, HUGE, RW, VmaFlags::SHARED))
        .unwrap();
    w.store(0, p, at, 1).unwrap();
    (object, at)
}

impl<F: PteFormat> Case<F> {
    /// Pages are written one by one: what is done for their neighbours would hide what is broken
    /// for one.
    fn written(&self) -> (World<F>, Process<F>) {
        let (world, process) = written(self.order, self.pages, self.hardware_ad);
        world.mm.switches().set(Switch::Cow, 0);
        world.mm.switches().set(Switch::Reuse, 0);
        world.mm.switches().set(Switch::Fork, self.fork as u32);
        (world, process)
    }

    /// Quiet as the code is; with the mutant the checks speak up, and say what they should.
    fn try_on(&self, mutant: Mutant) {
        let (world, process) = self.written();
        (self.verbs)(&world, &process);
        world.check(&[&process], &[]);

        let (world, process) = self.written();
        mutant::set(Some(mutant));
        let seen = catch_unwind(AssertUnwindSafe(|| {
            (self.verbs)(&world, &process);
            world.check(&[&process], &[]);
        }));
        mutant::set(None);
        // What the panic left half done is not for ending in the usual way.
        std::mem::forget(process);
        let seen = seen.expect_err(&format!("{mutant:?} was not seen"));
        let message = *seen.downcast::<String>().expect("a message");
        assert!(message.contains(self.rule), "{mutant:?}: {message}");
    }
}

fn read_only<F: PteFormat>(p: &Process<F>, first: u64, pages: u64) {
    p.protect(page(first), pages * PAGE_SIZE, Prot::READ)
        .unwrap();
}

fn writable<F: PteFormat>(p: &Process<F>, first: u64, pages: u64) {
    p.protect(page(first), pages * PAGE_SIZE, RW).unwrap();
}

fn guard<F: PteFormat>(p: &Process<F>, first: u64, pages: u64) {
    let bytes = pages * PAGE_SIZE;
    p.advise(page(first), bytes, Advice::GuardInstall).unwrap();
}

/// Pages that a userfaultfd watches, the first of them write-protected.
fn watch<F: PteFormat>(p: &Process<F>, first: u64, pages: u64) {
    let range = |n| VirtRange::new(page(first), page(first + n));
    let with = Registration {
        monitor: 1,
        flags: VmaFlags::UFFD_WP,
    };
    p.userfault_register(range(BLOCK), with).unwrap();
    p.userfault_protect(range(pages), true).unwrap();
}

/// The page is a guard still.
fn check_guard<F: PteFormat>(w: &World<F>, p: &Process<F>, n: u64) {
    let read = w.load(0, p, page(n));
    assert!(read == Err(Resolution::Guard), "{OPEN}: {read:?}");
}

fn move_to<F: PteFormat>(p: &Process<F>, first: u64, pages: u64, to: VirtAddr) {
    let len = pages * PAGE_SIZE;
    assert_eq!(
        p.remap(page(first), len, len, FIXED, to, &mut Default::default()),
        Ok(to)
    );
}

/// What a PGD entry covers, in pages.
const PGD: u64 = 1 << 27;

/// Maps a PGD entry's worth around the area, with pages at both ends of it, and moves it by so many
/// pages.
fn move_pgd<F: PteFormat>(w: &World<F>, p: &Process<F>, by: u64) {
    let start = VirtAddr(4 * PGD * PAGE_SIZE);
    let request = MapRequest {
        flags: VmaFlags::NORESERVE,
        ..anon(Place::Fixed(start), PGD, RW)
    };
    p.map(request).unwrap();
    for n in [0, PGD - 1] {
        w.store(1, p, start + n * PAGE_SIZE, 1).unwrap();
    }
    let (len, to) = (PGD * PAGE_SIZE, start + by * PAGE_SIZE);
    assert_eq!(
        p.remap(start, len, len, FIXED, to, &mut Default::default()),
        Ok(to)
    );
}

fn pin_and_fork<F: PteFormat>(w: &World<F>, p: &Process<F>) {
    let pin = p.pin_long_term(page(3), Access::Write).unwrap();
    let child = p.fork().unwrap();
    w.check(&[p, &child], &[]);
    drop((pin, child));
}

/// Makes `pages` from `first` on an area of its own, which may not be written, in a folded block of
/// which the rest may be.
fn apart<F: PteFormat>(p: &Process<F>, first: u64, pages: u64) {
    read_only(p, first, pages);
    let child = p.fork().unwrap();
    // Another protection and back: the block folds again, as its entries say the same now.
    let text = Prot::READ | Prot::EXEC;
    p.protect(page(first), pages * PAGE_SIZE, text).unwrap();
    read_only(p, first, pages);
    drop(child);
}

/// Writes to the area that ends within a block.
fn write_before<F: PteFormat>(w: &World<F>, p: &Process<F>) {
    apart(p, 8, 8);
    w.store(0, p, page(2), 1).unwrap();
}

/// Writes to the area that begins within a block.
fn write_behind<F: PteFormat>(w: &World<F>, p: &Process<F>) {
    apart(p, 0, 8);
    w.store(0, p, page(12), 1).unwrap();
}

/// Writes to a page that another CPU unmaps while its folio is filled with zeros.
fn unmapped_while_zeroing<F: PteFormat>(w: &World<F>, first: &Process<F>) {
    let p = Arc::new(w.process());
    map(&p, AT, 2 * BLOCK, RW);
    let other = p.clone();
    w.sim.meanwhile(At::Zero, (0, 1), move || {
        other.unmap(page(BLOCK), BLOCK * PAGE_SIZE).unwrap()
    });
    let _ = w.store(0, &p, page(BLOCK + 1), 1);
    let seen = catch_unwind(AssertUnwindSafe(|| w.check(&[&p, first], &[])));
    if let Err(why) = seen {
        // What is left half done is not for ending in the usual way.
        std::mem::forget(p);
        resume_unwind(why);
    }
}

/// Writes to a page that another thread of the space writes to while its folio is filled with
/// zeros.
fn written_while_zeroing<F: PteFormat>(w: &World<F>, _: &Process<F>) {
    let p = Arc::new(w.process());
    p.share().unwrap();
    map(&p, AT, 2, RW);
    // The table is there.
    w.store(0, &p, page(0), 1).unwrap();
    let (v, q) = (w.clone(), p.clone());
    w.sim.meanwhile(At::Zero, (1, 1), move || {
        let there = std::thread::spawn(move || {
            v.sim.run_on(1);
            v.store(1, &q, page(1), 2).unwrap();
        });
        there.join().expect("the other CPU has failed");
    });
    let _ = w.store(0, &p, page(1), 1);
}

/// Drops the pages of a table while another thread is about to read there.
fn emptied_while_read<F: PteFormat>(w: &World<F>, _: &Process<F>) {
    let p = Arc::new(w.process());
    p.share().unwrap();
    map(&p, AT, HUGE, RW);
    sizes(w, 0);
    w.store(0, &p, page(0), 1).unwrap();
    sizes(w, 9);
    let _ = race::read_while_emptied(w, &p, page(1), (AT, HUGE));
}

/// Unmaps the first half of what a table maps, while another thread writes to the second one.
fn half_unmapped<F: PteFormat>(w: &World<F>, _: &Process<F>) {
    let p = Arc::new(w.process());
    p.share().unwrap();
    // Whole tables are detached.
    map(&p, AT, 4 * HUGE, RW);
    w.store(0, &p, page(HUGE), 1).unwrap();
    // The table above stays.
    w.store(0, &p, page(3 * HUGE), 1).unwrap();
    race::write_at_the_flush(w, &p, page(2 * HUGE - 1), (AT, 3 * HUGE / 2));
}

/// Splits a folio of zeros, and writes to one of its pages right before the flush.
fn zeros_written<F: PteFormat>(w: &World<F>, _: &Process<F>) {
    let p = Arc::new(w.process());
    map(&p, AT, 8, RW);
    // Too small to be folded: the first flush is that of the pages of zeros.
    sizes(w, 3);
    w.store(1, &p, page(5), 0).unwrap();
    let (v, q) = (w.clone(), p.clone());
    w.sim.meanwhile(At::Flush, (1, 1), move || {
        v.store(1, &q, page(5), 7).unwrap();
    });
    assert_eq!(p.split_range(VirtRange::new(AT, page(8)), Order(0)), (1, 0));
    assert!(!w.sim.forget(), "nothing was flushed");
    let read = w.load(0, &p, page(5));
    assert!(read == Ok(7), "a write is lost: {read:?}");
}

/// Maps 2 MiB again that several threads may use, while one of them reads there.
fn replaced_while_read<F: PteFormat>(w: &World<F>, _: &Process<F>) {
    let p = Arc::new(w.process());
    p.share().unwrap();
    map(&p, AT, HUGE, RW);
    w.store(0, &p, AT, 1).unwrap();
    let (v, q) = (w.clone(), p.clone());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let all = seen.clone();
    w.sim.in_pauses(Some(Box::new(move || {
        all.lock().unwrap().push(v.load(1, &q, AT));
        false
    })));
    map(&p, AT, HUGE, RW);
    w.sim.in_pauses(None);
    let seen = seen.lock().unwrap();
    // Both CPUs are one thread of the host, which cannot wait for itself.
    let waits = |seen: &Result<u8, Resolution>| *seen == Err(Resolution::Claimed);
    assert!(
        !seen.is_empty() && seen.iter().all(waits),
        "refused in a pause: {seen:?}"
    );
}

/// Unmaps 2 MiB that several threads may use.
fn unmapped_whole<F: PteFormat>(w: &World<F>, p: &Process<F>) {
    p.share().unwrap();
    map(p, page(HUGE), HUGE, RW);
    for n in [HUGE, 2 * HUGE - 1] {
        w.store(1, p, page(n), 1).unwrap();
    }
    p.unmap(page(HUGE), HUGE * PAGE_SIZE).unwrap();
}

/// A process ends, and the tag that it had is used again.
fn child_ends<F: PteFormat>(w: &World<F>, p: &Process<F>) {
    let child = w.adopt(p.fork().unwrap());
    w.load(1, &child, AT).unwrap();
    drop(child);
}

/// What each mutant shows in, and how, where there is a contiguous bit.
fn on_arm(mutant: Mutant) -> Vec<Case<Arm>> {
    let (uniform, area) = ("non-uniform block", "its VMA is not");
    match mutant {
        Mutant::NoUnfold => vec![
            blocks(uniform, |_, p| p.unmap(page(5), PAGE_SIZE).unwrap()),
            blocks(uniform, |_, p| read_only(p, 5, BLOCK)),
            blocks(uniform, |_, p| {
                p.advise(page(15), 2 * PAGE_SIZE, Advice::DontNeed).unwrap()
            }),
            blocks(uniform, |w, p| {
                let child = p.fork().unwrap();
                w.store(0, p, page(5), 1).unwrap();
                drop(child);
            }),
            blocks(uniform, |_, p| move_to(p, 5, BLOCK, page(1013))),
        ],
        Mutant::FoldMisaligned => vec![Case {
            // 32 pages of one folio, and a block's worth of them lies one page off.
            order: 5,
            ..blocks("misaligned block", |_, p| {
                // Entries on their way are folded by other code: this is for those at rest.
                move_to(p, 0, 2 * BLOCK, page(1001));
                read_only(p, 1001, BLOCK);
                writable(p, 1001, BLOCK);
            })
        }],
        Mutant::MoveFolded => vec![blocks("misaligned block", |_, p| {
            move_to(p, 0, 2 * BLOCK, page(1001));
        })],
        // The rights of one half come to be those of the other.
        Mutant::FoldNonUniform => vec![blocks(area, |_, p| read_only(p, 0, BLOCK / 2))],
        Mutant::FoldAcrossFolios => vec![Case {
            // Folios of 32 KiB that happen to lie side by side.
            order: 3,
            pages: 8 * BLOCK,
            ..blocks("folded block of several folios", |_, p| {
                read_only(p, 0, 8 * BLOCK)
            })
        }],
        Mutant::FoldWithoutBreak => vec![blocks(LIVE, |_, p| {
            read_only(p, 3, 1);
            writable(p, 3, 1);
        })],
        Mutant::UnfoldWithoutBreak => vec![
            blocks(LIVE, |_, p| read_only(p, 3, 1)),
            blocks(LIVE, |_, p| p.unmap(page(5), PAGE_SIZE).unwrap()),
        ],
        Mutant::BreakWithoutFlush => vec![
            blocks(LIVE, |_, p| read_only(p, 3, 1)),
            blocks(LIVE, |w, p| {
                w.mm.switches().set(Switch::Contpte, 0);
                map(p, page(64), BLOCK, RW);
                w.store(0, p, page(64), 1).unwrap();
                w.mm.switches().set(Switch::Contpte, 1);
                read_only(p, 64, BLOCK);
            }),
        ],
        Mutant::AccessedLost | Mutant::DirtyLost => vec![
            blocks("lost bit", |w, p| {
                w.check(&[p], &[]);
                read_only(p, 3, 1);
            }),
            blocks("lost bit", |_, p| {
                read_only(p, 3, 1);
                writable(p, 3, 1);
            }),
        ],
        Mutant::ReadOne => vec![blocks("used", |w, p| {
            let range = VirtRange::new(AT, page(BLOCK));
            p.advise(AT, range.len(), Advice::Cold).unwrap();
            // No TLB has the block, so the walker sets the bit again, in one entry.
            read_only(p, 0, BLOCK);
            w.sim.forgive(p.root(), range, Attrs::ACCESSED);
            w.load(0, p, page(7)).unwrap();
            let used = p.smaps(AT).expect("an area").referenced;
            assert!(
                used == BLOCK * PAGE_SIZE,
                "{used} bytes of a block were used"
            );
        })],
        Mutant::ReadAllButLast => vec![blocks("used", |w, p| {
            let range = VirtRange::new(AT, page(BLOCK));
            // The walker chooses the entry that it marks: in one of so many rounds it is the last.
            for _ in 0..200 {
                writable(p, 0, BLOCK);
                p.advise(AT, range.len(), Advice::Cold).unwrap();
                // No TLB has the block after that.
                read_only(p, 0, BLOCK);
                w.sim.forgive(p.root(), range, Attrs::ACCESSED);
                w.load(0, p, page(BLOCK - 1)).unwrap();
                let used = p.smaps(AT).expect("an area").referenced;
                assert!(
                    used == BLOCK * PAGE_SIZE,
                    "{used} bytes of a block were used"
                );
            }
        })],
        Mutant::MarkOne => vec![Case {
            hardware_ad: false,
            ..blocks(uniform, |w, p| {
                drop(p.fork().unwrap());
                w.store(0, p, page(5), 1).unwrap();
            })
        }],
        Mutant::WriteOutside => vec![blocks(area, write_before), blocks(area, write_behind)],
        Mutant::WriteBeyond => vec![blocks(area, write_before)],
        Mutant::ProtectWithoutUnfold => vec![blocks("non-uniform", |_, p| watch(p, 0, 4))],
        Mutant::SplitWithoutFlush => vec![huge(LIVE, |_, p| read_only(p, 3, 1))],
        Mutant::CollapseWithoutFlush => vec![Case {
            pages: HUGE,
            ..blocks(LIVE, |_, p| {
                p.advise(AT, HUGE * PAGE_SIZE, Advice::Collapse).unwrap()
            })
        }],
        _ => everywhere(mutant),
    }
}

/// Mutants that no contiguous bit is needed for.
fn everywhere<F: PteFormat>(mutant: Mutant) -> Vec<Case<F>> {
    match mutant {
        Mutant::InstallWithoutLooking => vec![blocks(OUTSIDE, unmapped_while_zeroing)],
        Mutant::DropBeforeFlush => vec![blocks(FLUSH, unmapped_whole)],
        Mutant::RefuseInPause => vec![blocks("refused in a pause", replaced_while_read)],
        Mutant::InstallBeside => vec![blocks("is not an absent PTE", written_while_zeroing)],
        Mutant::OpenBeforeFlush => vec![blocks("comes to say Table", half_unmapped)],
        Mutant::LookOnce => vec![blocks("a write is lost", zeros_written)],
        Mutant::LeafBeside => vec![blocks("a reader unlinks", emptied_while_read)],
        Mutant::NoFlush => vec![
            blocks(FLUSH, |_, p| p.unmap(AT, BLOCK * PAGE_SIZE).unwrap()),
            blocks(FLUSH, |_, p| read_only(p, 0, BLOCK)),
            blocks(FLUSH, |_, p| drop(p.fork().unwrap())),
            huge(FLUSH, |_, p| read_only(p, 0, HUGE)),
            huge(FLUSH, |_, p| {
                p.advise(AT, HUGE * PAGE_SIZE, Advice::DontNeed).unwrap()
            }),
        ],
        Mutant::FlushFirstPage => vec![
            blocks(FLUSH, |_, p| p.unmap(AT, BLOCK * PAGE_SIZE).unwrap()),
            blocks(FLUSH, |_, p| read_only(p, 0, BLOCK)),
            blocks(FLUSH, |_, p| drop(p.fork().unwrap())),
        ],
        Mutant::ProtectHere => vec![
            blocks(FLUSH, |_, p| read_only(p, 0, BLOCK)),
            huge(FLUSH, |_, p| read_only(p, 0, HUGE)),
        ],
        Mutant::FlushWideStride => vec![
            blocks(FLUSH, |_, p| read_only(p, 0, BLOCK)),
            blocks(FLUSH, |_, p| {
                p.advise(AT, BLOCK * PAGE_SIZE, Advice::DontNeed).unwrap()
            }),
        ],
        Mutant::KeepPointers => vec![
            blocks(FLUSH, |_, p| {
                p.unmap(AT, 2 * BLOCK * PAGE_SIZE).unwrap();
            }),
            blocks(FLUSH, |_, p| move_to(p, 0, 2 * BLOCK, page(5000))),
            blocks(FLUSH, |w, p| move_pgd(w, p, 3 * PGD)),
        ],
        Mutant::MoveWithoutFlush => vec![
            blocks(TWICE, |_, p| move_to(p, 0, 2 * BLOCK, page(1000))),
            blocks(TWICE, |_, p| move_to(p, 3, BLOCK, page(2000))),
            huge(TWICE, |_, p| move_to(p, 0, HUGE, page(10 * HUGE))),
            blocks(TWICE, |w, p| move_pgd(w, p, 3 * PGD)),
        ],
        Mutant::MoveUnlike => vec![
            blocks(OUTSIDE, |w, p| move_pgd(w, p, 3 * PGD + 1)),
            huge("crosses an end of its VMA", |_, p| {
                move_to(p, 0, HUGE, page(10 * HUGE + 1))
            }),
        ],
        Mutant::ShareWritable => vec![shared("it may be written through", |_, p| {
            drop(p.fork().unwrap());
        })],
        Mutant::CopyWithoutFlush => vec![blocks(LIVE, |w, p| {
            let child = p.fork().unwrap();
            w.store(0, p, page(5), 1).unwrap();
            drop(child);
        })],
        Mutant::UnshareWithoutFlush => vec![unshared(LIVE)],
        Mutant::KeepAccountant => vec![shared("does not say what was found", |w, p| {
            let child = p.fork().unwrap();
            p.unmap(page(5), PAGE_SIZE).unwrap();
            w.check(&[p, &child], &[]);
        })],
        Mutant::SharePinned => vec![
            blocks("others have it", pin_and_fork),
            huge("others have it", pin_and_fork),
        ],
        Mutant::OpenGuards => vec![blocks(OPEN, |w, p| {
            guard(p, 3, 1);
            read_only(p, 0, BLOCK);
            check_guard(w, p, 3);
        })],
        Mutant::DropGuards => vec![blocks(OPEN, |w, p| {
            guard(p, 3, 1);
            p.advise(AT, BLOCK * PAGE_SIZE, Advice::DontNeed).unwrap();
            check_guard(w, p, 3);
        })],
        Mutant::CopyNameless => vec![blocks("does not say what was found", |w, p| {
            p.advise(AT, BLOCK * PAGE_SIZE, Advice::PageOut).unwrap();
            let child = p.fork().unwrap();
            w.check(&[p, &child], &[]);
        })],
        // The last entry that maps it would free it.
        Mutant::SlotsHoldNothing => vec![blocks("whose slots are others", |w, p| {
            p.advise(AT, BLOCK * PAGE_SIZE, Advice::PageOut).unwrap();
            w.check(&[p], &[]);
        })],
        Mutant::StoreInUse => vec![blocks("has references and was stored", |w, p| {
            let _child = w.adopt(p.fork().unwrap());
            p.advise(AT, BLOCK * PAGE_SIZE, Advice::PageOut).unwrap();
        })],
        Mutant::ShelveMapped => vec![blocks("which is Free", |w, p| {
            let object = Object::new(&w.mm);
            object.set_len(PAGE_SIZE);
            let to = page(1000);
            p.map(of_object(&object, 0, to, 1, RW, VmaFlags::SHARED))
                .unwrap();
            w.store(0, p, to, 1).unwrap();
            w.mm.reclaim_cold(1);
            w.mm.reclaim_cold(1);
            w.check(&[p], &[&object]);
        })],
        Mutant::CutForgetsNames => vec![blocks("does not say what was found", |w, p| {
            w.mm.switches().set(Switch::SwapIn, SwapIn::Page as u32);
            p.advise(AT, BLOCK * PAGE_SIZE, Advice::PageOut).unwrap();
            w.load(0, p, page(5)).unwrap();
            w.check(&[p], &[]);
        })],
        Mutant::ForgetSwapped => vec![shared("RSS of a space", |w, p| {
            p.advise(AT, BLOCK * PAGE_SIZE, Advice::PageOut).unwrap();
            // The table is copied for the write.
            let first = p.fork().unwrap();
            w.store(0, p, page(BLOCK + 5), 1).unwrap();
            let second = p.fork().unwrap();
            w.check(&[p, &first, &second], &[]);
        })],
        Mutant::ShareGuards => vec![shared("in a shared table", |w, p| {
            guard(p, 3, 1);
            let child = p.fork().unwrap();
            w.check(&[p, &child], &[]);
        })],
        Mutant::ForgetGuards => vec![blocks("area that has none", |_, p| {
            read_only(p, 8, 8);
            guard(p, 9, 2);
            writable(p, 8, 8);
        })],
        Mutant::InheritProtection => vec![blocks(ALONE, |w, p| {
            watch(p, 0, 4);
            let child = p.fork().unwrap();
            w.check(&[p, &child], &[]);
        })],
        Mutant::MoveProtection => vec![blocks(ALONE, |_, p| {
            watch(p, 0, 4);
            move_to(p, 0, BLOCK, page(1000));
        })],
        Mutant::LeaveProtected => vec![blocks(ALONE, |_, p| {
            watch(p, 0, 4);
            p.userfault_forget(1);
        })],
        Mutant::KeepTagged => vec![blocks(FLUSH, child_ends)],
        Mutant::ReuseOutside => vec![blocks("its VMA is not", |w, p| {
            w.mm.switches().set(Switch::Reuse, 1);
            read_only(p, 8, 8);
            drop(p.fork().unwrap());
            w.store(0, p, page(2), 1).unwrap();
        })],
        Mutant::KeepReservations => vec![blocks("claims were found", |w, p| {
            let at = hugetlb(w, p, VmaFlags::SHARED);
            p.unmap(at, DEFAULT.bytes()).unwrap();
        })],
        Mutant::FreeHugePages => vec![blocks("frames in use by kind", |w, p| {
            let at = hugetlb(w, p, VmaFlags::empty());
            w.store(0, p, at, 1).unwrap();
            p.unmap(at, DEFAULT.bytes()).unwrap();
        })],
        Mutant::FreeHwPoison => vec![blocks("frames out of use", |_, p| {
            p.offline(page(1), Offline::Hard).unwrap();
        })],
        Mutant::MapPunched => vec![blocks("of its object is another one", |w, p| {
            let (object, at) = shmem(w, p, 4);
            let pin = p.pin(at + 9 * PAGE_SIZE).unwrap();
            object.punch(3 * PAGE_SIZE, PAGE_SIZE);
            w.load(0, p, at).unwrap();
            w.check(&[p], &[&object]);
            drop(pin);
        })],
        Mutant::SplitMapped => vec![blocks("references", |w, p| {
            let (object, at) = shmem(w, p, 4);
            let pin = p.pin(at + 9 * PAGE_SIZE).unwrap();
            object.punch(3 * PAGE_SIZE, PAGE_SIZE);
            w.check(&[p], &[&object]);
            drop(pin);
        })],
        Mutant::PunchUnderLeaf => vec![blocks("leaf is cut", |w, p| {
            let (object, _) = shmem(w, p, 9);
            object.punch(3 * PAGE_SIZE, PAGE_SIZE);
        })],
        Mutant::CutHugePages => vec![blocks("leaf is cut", |w, p| {
            let at = hugetlb(w, p, VmaFlags::empty());
            w.store(0, p, at, 1).unwrap();
            p.unmap(at, PAGE_SIZE).unwrap_err();
        })],
        _ => Vec::new(),
    }
}

/// And where there are keys.
fn on_x86(mutant: Mutant) -> Vec<Case<X86>> {
    const OTHER: &str = "its VMA Attrs";
    let with_key = |_: &World<X86>, p: &Process<X86>| {
        let key = p.allocate_key().unwrap();
        let bytes = BLOCK * PAGE_SIZE;
        p.protect_with_key(AT, bytes, RW, Some(key)).unwrap();
    };
    match mutant {
        Mutant::KeepKeys => vec![
            blocks(OTHER, with_key),
            blocks(OTHER, |_, p| {
                let key = p.allocate_key().unwrap();
                p.protect_with_key(page(3), PAGE_SIZE, Prot::READ, Some(key))
                    .unwrap();
            }),
            huge(OTHER, with_key),
        ],
        Mutant::NoFlush => vec![
            blocks(FLUSH, with_key),
            huge(FLUSH, |_, p| {
                let key = p.allocate_key().unwrap();
                p.protect_with_key(AT, HUGE * PAGE_SIZE, RW, Some(key))
                    .unwrap();
            }),
        ],
        _ => everywhere(mutant),
    }
}

#[test]
fn each_mutant_is_caught_aarch64() {
    let _alone = race::alone();
    for mutant in Mutant::ALL {
        let cases = on_arm(*mutant);
        // What takes several CPUs, and what takes keys, is not tried here.
        let by_model = matches!(
            mutant,
            Mutant::DrainOthers
                | Mutant::KeepKeys
                | Mutant::MoveInUse
                | Mutant::MoveUnlooked
                | Mutant::StoreUnlooked
        );
        assert!(
            by_model == cases.is_empty(),
            "{mutant:?} is tried on nothing"
        );
        cases.iter().for_each(|case| case.try_on(*mutant));
    }
}

#[test]
fn each_mutant_is_caught_x86_64() {
    let _alone = race::alone();
    let tried = Mutant::ALL.iter().map(|mutant| {
        let cases = on_x86(*mutant);
        cases.iter().for_each(|case| case.try_on(*mutant));
        assert!(*mutant != Mutant::KeepKeys || !cases.is_empty());
        cases.len()
    });
    assert!(tried.sum::<usize>() > 8);
}
