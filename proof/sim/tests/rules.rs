//! A test of the tests: tables written by hand, one rule broken at a time, and the machine says
//! which.

use arch_sim::{Options, Sim};
use mm::addr::{Order, PAGE_SIZE, Pfn, VirtAddr, VirtRange};
use mm::arch::{Asid, Attrs, Cpu, Level, Machine, PhysMem, PteFormat, Tlb};
use mm::fault::Access;
use std::panic::{AssertUnwindSafe, catch_unwind};

type Arm = arch_aarch64::pte::Format;
type X86 = arch_x86_64::pte::Format;

const AT: VirtAddr = VirtAddr(0x4000_0000);
const ASID: Asid = Asid(5);
const ROOT: Pfn = Pfn(0x80000);
const PMD: Pfn = Pfn(0x80002);
const PTE: Pfn = Pfn(0x80003);
/// Aligned to 2 MiB.
const DATA: Pfn = Pfn(0x80200);
const RW: Attrs = Attrs::USER.union(Attrs::WRITE).union(Attrs::ACCESSED);
const FOLDED: Attrs = RW.union(Attrs::CONTIG);
const BLOCK: usize = 16;

/// A machine with one PTE table and one PMD above it, loaded on both CPUs.
struct Bench<F: PteFormat>(Sim<F>);

impl<F: PteFormat> Bench<F> {
    fn new() -> Self {
        let sim = Sim::<F>::new(Options {
            frames: 2048,
            prefetch: 0,
            ..Options::default()
        });
        for (table, index, child) in [(ROOT, 0, ROOT + 1), (ROOT + 1, 1, PMD), (PMD, 0, PTE)] {
            sim.mem().store(table, index, F::table(child));
        }
        for cpu in 0..2 {
            sim.run_on(cpu);
            sim.cpu().activate(ROOT, ASID);
        }
        Bench(sim)
    }
    fn put(&self, index: usize, pfn: Pfn, attrs: Attrs) {
        self.0
            .mem()
            .store(PTE, index, F::leaf(pfn, attrs, Level::Pte));
    }
    /// Maps the first block to the first frames.
    fn map(&self, attrs: Attrs) {
        (0..BLOCK).for_each(|i| self.put(i, DATA + i as u64, attrs));
    }
    fn clear(&self) {
        (0..BLOCK).for_each(|i| self.0.mem().store(PTE, i, 0));
    }
    fn flush(&self, pages: u64, stride: Level, tables: bool) {
        let range = VirtRange::new(AT, AT + pages * PAGE_SIZE);
        self.0.tlb().flush_range(ASID, range, stride, tables);
    }
    fn flush_block(&self) {
        self.flush(BLOCK as u64, Level::Pte, false);
    }
    fn settle(&self) {
        self.0.settle(|_| true);
    }
    fn access(&self, page: u64, access: Access) {
        let at = self.0.translate(1, AT + page * PAGE_SIZE, access);
        assert_eq!(at.expect("it is mapped").frame(), DATA + page);
    }
}

/// Runs the steps, which must end in a message that begins with `rule`.
fn caught<F: PteFormat>(rule: &str, steps: impl Fn(&Bench<F>)) {
    let bench = Bench::new();
    let run = || {
        steps(&bench);
        bench.settle();
    };
    let seen = catch_unwind(AssertUnwindSafe(run)).expect_err("the broken rule was not seen");
    let message = *seen.downcast::<String>().expect("a message");
    assert!(message.starts_with(rule), "{message}");
}

#[test]
fn a_block_is_held_as_one_and_page_by_page() {
    let bench = Bench::<Arm>::new();
    bench.map(FOLDED);
    let mut held = std::collections::BTreeSet::new();
    for page in (0..BLOCK as u64).cycle().take(64) {
        bench.access(page, Access::Read);
        bench.access(page, Access::Write);
        held.extend(bench.0.cached().iter().map(|(_, c)| c.bytes));
        bench.flush_block();
    }
    assert_eq!(Vec::from_iter(held), [PAGE_SIZE, 64 << 10]);
    // Fold, unfold, other rights, zap, as they should be.
    for attrs in [RW | Attrs::DIRTY, FOLDED | Attrs::DIRTY] {
        bench.clear();
        bench.flush_block();
        bench.map(attrs);
        bench.settle();
    }
    bench.map((FOLDED | Attrs::DIRTY) - Attrs::WRITE);
    bench.flush_block();
    bench.settle();
    bench.clear();
    bench.flush_block();
    bench.settle();
    assert!(bench.0.cached().is_empty());
}

#[test]
fn the_walker_sets_bits_in_any_entry_of_a_block() {
    let mut dirty = std::collections::BTreeSet::new();
    for seed in 0..64 {
        let bench = Bench(Sim::<Arm>::new(Options {
            seed,
            ..Bench::<Arm>::new().0.options()
        }));
        for (table, index, child) in [(ROOT, 0, ROOT + 1), (ROOT + 1, 1, PMD), (PMD, 0, PTE)] {
            bench.0.mem().store(table, index, Arm::table(child));
        }
        bench.0.run_on(1);
        bench.0.cpu().activate(ROOT, ASID);
        bench.map(FOLDED);
        bench.access(3, Access::Write);
        dirty.extend((0..BLOCK).filter(|i| {
            bench.0.mem().load(PTE, *i) != Arm::leaf(DATA + *i as u64, FOLDED, Level::Pte)
        }));
    }
    assert!(dirty.len() > 8, "{dirty:?}");
}

#[test]
fn a_misaligned_block() {
    caught::<Arm>("misaligned block", |b| b.put(0, DATA + 1, FOLDED));
    caught::<Arm>("misaligned block", |b| b.put(3, DATA, FOLDED));
}

#[test]
fn a_block_that_is_not_uniform() {
    let mixed = |attrs: Attrs, pfn: Pfn| {
        move |b: &Bench<Arm>| {
            b.put(0, DATA, FOLDED);
            b.put(1, pfn, attrs);
        }
    };
    caught::<Arm>("non-uniform block", mixed(FOLDED, DATA + 17));
    caught::<Arm>("non-uniform block", mixed(RW, DATA + 1));
    caught::<Arm>("non-uniform block", mixed(FOLDED | Attrs::DEVICE, DATA + 1));
    // Seen at rest.
    caught::<Arm>("non-uniform block", mixed(FOLDED, DATA + 1));
    caught::<Arm>("non-uniform block", |b| {
        b.map(FOLDED);
        b.put(7, DATA + 7, FOLDED - Attrs::WRITE);
        b.flush_block();
    });
}

#[test]
fn a_dirty_bit_that_software_sets_is_a_right() {
    let bench = Bench(Sim::<Arm>::new(Options {
        hardware_ad: false,
        ..Bench::<Arm>::new().0.options()
    }));
    for (table, index, child) in [(ROOT, 0, ROOT + 1), (ROOT + 1, 1, PMD), (PMD, 0, PTE)] {
        bench.0.mem().store(table, index, Arm::table(child));
    }
    bench.0.cpu().activate(ROOT, ASID);
    bench.map(FOLDED);
    bench.put(7, DATA + 7, FOLDED | Attrs::DIRTY);
    let seen = catch_unwind(AssertUnwindSafe(|| bench.settle())).expect_err("it was not seen");
    let message = *seen.downcast::<String>().expect("a message");
    assert!(message.starts_with("non-uniform block"), "{message}");
}

#[test]
fn live_changes() {
    let rule = "break-before-make";
    // The frame, in place and through an absent entry that was not flushed.
    caught::<Arm>(rule, |b| {
        b.put(0, DATA, RW);
        b.put(0, DATA + 1, RW);
    });
    caught::<Arm>(rule, |b| {
        b.put(0, DATA, RW);
        b.clear();
        b.put(0, DATA + 1, RW);
    });
    // Contiguity, likewise, both ways; and with a flush that covers too little.
    for (old, new) in [(RW, FOLDED), (FOLDED, RW)] {
        caught::<Arm>(rule, |b| {
            b.map(old);
            b.map(new);
        });
        caught::<Arm>(rule, |b| {
            b.map(old);
            b.clear();
            b.map(new);
        });
        for (pages, stride) in [
            (1, Level::Pte),
            (BLOCK as u64 - 1, Level::Pte),
            (512, Level::Pmd),
        ] {
            caught::<Arm>(rule, |b| {
                b.map(old);
                b.clear();
                b.flush(pages, stride, false);
                b.map(new);
            });
        }
    }
    // The first page is flushed, and another is still held: as one with the first, it was.
    caught::<Arm>(rule, |b| {
        b.map(FOLDED);
        b.clear();
        b.flush(1, Level::Pte, false);
        b.put(0, DATA, RW);
    });
}

#[test]
fn a_live_change_of_size() {
    let rule = "break-before-make";
    let large = Arm::leaf(DATA, RW, Level::Pmd);
    let table = Arm::table(PTE);
    let change = |from: u64, to: u64, stride: Level, tables: Option<bool>| {
        move |b: &Bench<Arm>| {
            // What is in the table is live with it.
            b.map(RW);
            b.0.mem().store(PMD, 0, 0);
            b.flush(512, Level::Pte, true);
            b.0.mem().store(PMD, 0, from);
            if let Some(tables) = tables {
                b.0.mem().swap(PMD, 0, 0);
                b.flush(512, stride, tables);
            }
            b.0.mem().store(PMD, 0, to);
        }
    };
    for (from, to) in [(large, table), (table, large)] {
        caught::<Arm>(rule, change(from, to, Level::Pte, None));
    }
    // The pages are flushed, the pointer to their table is not; the pointer is flushed, the pages
    // are not.
    caught::<Arm>(rule, change(table, large, Level::Pte, Some(false)));
    caught::<Arm>(rule, change(table, large, Level::Pmd, Some(true)));
    let fine = Bench::<Arm>::new();
    change(table, large, Level::Pte, Some(true))(&fine);
    let fine = Bench::<Arm>::new();
    change(large, table, Level::Pmd, Some(false))(&fine);
    fine.settle();
}

fn missed_flushes<F: PteFormat>() {
    let rule = "missed flush";
    caught::<F>(rule, |b| {
        b.map(RW);
        b.clear();
    });
    caught::<F>(rule, |b| {
        b.map(RW);
        b.clear();
        b.flush(BLOCK as u64 - 1, Level::Pte, false);
    });
    for attrs in [RW - Attrs::WRITE, RW | Attrs::NO_ACCESS] {
        caught::<F>(rule, |b| {
            b.map(RW);
            b.map(attrs);
        });
    }
    // A pointer to a table that is gone.
    caught::<F>(rule, |b| {
        b.0.mem().store(PMD, 0, 0);
        b.flush(512, Level::Pte, false);
    });
    // More rights need no flush, nor does a bit.
    let bench = Bench::<F>::new();
    bench.map(RW - Attrs::WRITE);
    bench.map(RW);
    bench.map(RW | Attrs::DIRTY);
    bench.settle();
    // A tag that is flushed holds nothing.
    bench.clear();
    bench.0.tlb().flush_asid(ASID);
    bench.settle();
}

#[test]
fn missed_flushes_aarch64() {
    missed_flushes::<Arm>();
}

#[test]
fn missed_flushes_x86_64() {
    missed_flushes::<X86>();
}

fn lost_bits<F: PteFormat>() {
    for (access, lost) in [
        (Access::Read, Attrs::ACCESSED),
        (Access::Write, Attrs::DIRTY),
    ] {
        let lose = |b: &Bench<F>| {
            b.map(RW - Attrs::ACCESSED);
            b.access(3, access);
            b.settle();
            b.clear();
            b.flush_block();
            b.map((RW | Attrs::DIRTY) - lost);
        };
        caught::<F>("lost bit", lose);
        let bench = Bench::new();
        lose(&bench);
        let range = VirtRange::new(AT, AT + PAGE_SIZE * BLOCK as u64);
        bench.0.forgive(ROOT, range, lost);
        bench.settle();
    }
    // The page lies elsewhere: what was set goes with it.
    caught::<F>("lost bit", |b| {
        b.map(RW);
        b.access(3, Access::Write);
        b.clear();
        b.flush_block();
        b.put(100, DATA + 3, RW);
    });
    // The page is gone, and its frame is another's.
    let bench = Bench::<F>::new();
    bench.map(RW);
    bench.access(3, Access::Write);
    bench.clear();
    bench.flush_block();
    bench.0.mem().zero(DATA + 3, Order(0));
    bench.put(100, DATA + 3, RW);
    bench.settle();
}

#[test]
fn lost_bits_aarch64() {
    lost_bits::<Arm>();
}

#[test]
fn lost_bits_x86_64() {
    lost_bits::<X86>();
}

#[test]
fn a_bit_of_a_folded_block_counts_wherever_it_is() {
    caught::<Arm>("lost bit", |b| {
        b.map(FOLDED);
        b.access(3, Access::Write);
        // Gathered, it is still there.
        b.settle();
        b.clear();
        b.flush_block();
        b.map(RW);
    });
}

/// The frame of a root that ended becomes a root again, of tables that map the same frames, which
/// it has not used.
fn a_root_in_a_used_frame<F: PteFormat>() {
    let bench = Bench::<F>::new();
    bench.map(RW);
    bench.access(3, Access::Read);
    bench.clear();
    bench.0.mem().store(ROOT, 0, 0);
    bench.flush(BLOCK as u64, Level::Pte, true);
    bench.0.mem().zero(ROOT, Order(0));
    bench.map(RW - Attrs::ACCESSED);
    bench.0.mem().store(ROOT, 0, F::table(ROOT + 1));
    bench.0.cpu().activate(ROOT, ASID);
    bench.settle();
}

#[test]
fn a_root_in_a_used_frame_begins_anew() {
    a_root_in_a_used_frame::<Arm>();
    a_root_in_a_used_frame::<X86>();
}
