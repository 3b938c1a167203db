//! mremap over sparse memory of several TiB, against a plain model: whole PGD, PUD and PMD entries,
//! blocks and single pages, with heads and tails, aligned alike and not.

mod common;

use arch_sim::{Options, Process, World};
use common::*;
use mm::addr::{PAGE_SIZE, VirtAddr, VirtRange};
use mm::arch::{Level, PteFormat};
use mm::fault::Resolution;
use mm::switch::Switch;
use mm::vma::{Prot, VmaFlags};
use mm::{MapRequest, Place, RemapFlags};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const GIB: u64 = 1 << 30;
/// What a PGD entry covers.
const PGD: u64 = 512 * GIB;
/// Where the arena starts, and how long it is.
const ARENA: VirtAddr = VirtAddr(PGD);
const LEN: u64 = 12 * PGD;
/// What alignments are about: a page, a block of 16, a PMD, a PUD, a PGD entry.
const UNITS: [u64; 5] = [PAGE_SIZE, 16 * PAGE_SIZE, 512 * PAGE_SIZE, GIB, PGD];

/// Settings of the switch.
const LEVELS: u32 = Level::Pgd as u32 + 1;

#[derive(Clone, Debug)]
enum Step {
    /// Writes a byte this many units from the start of the arena, if something is mapped there.
    Write { unit: usize, place: u64, byte: u8 },
    /// Moves `len` units from one place to another, which is off by `skew` pages.
    Move {
        unit: usize,
        from: u64,
        len: u64,
        to: u64,
        skew: u64,
    },
    /// Sets the switch.
    Level(u32),
}

fn step() -> impl Strategy<Value = Step> {
    // Near the start, or where the second PGD entry begins.
    let place = |unit: usize| {
        let near = [12 * 512, 12 * 512, 12 * 512, 12, 12][unit];
        let second = PGD / UNITS[unit];
        prop_oneof![4 => 0..near, 1 => second.saturating_sub(near / 2)..second + near / 2]
    };
    prop_oneof![
        4 => (0..5usize, any::<u8>()).prop_flat_map(move |(unit, byte)| {
            place(unit).prop_map(move |place| Step::Write { unit, place, byte })
        }),
        3 => (0..5usize, prop_oneof![3 => Just(0u64), 1 => 1..40u64]).prop_flat_map(move |(unit, skew)| {
            let most = [600u64, 80, 1030, 4, 4][unit];
            (place(unit), 1u64..most, place(unit)).prop_map(move |(from, len, to)| {
                Step::Move { unit, from, len, to, skew }
            })
        }),
        1 => (0..LEVELS).prop_map(Step::Level),
    ]
}

/// What is mapped, and the bytes that were written.
#[derive(Default)]
struct Model {
    mapped: Vec<VirtRange>,
    bytes: BTreeMap<u64, u8>,
}

impl Model {
    /// Whether all of the range is mapped, by one area that holds it.
    fn covers(&self, range: &VirtRange) -> bool {
        self.mapped.iter().any(|m| m.covers(range))
    }
    fn remove(&mut self, range: &VirtRange) {
        let mut left = Vec::new();
        for m in &self.mapped {
            if !m.overlaps(range) {
                left.push(*m);
                continue;
            }
            if m.start < range.start {
                left.push(VirtRange::new(m.start, range.start));
            }
            if range.end < m.end {
                left.push(VirtRange::new(range.end, m.end));
            }
        }
        self.mapped = left;
        self.bytes.retain(|va, _| !range.contains(VirtAddr(*va)));
    }
    fn moved(&mut self, from: &VirtRange, to: VirtAddr) {
        let carried: Vec<_> = self
            .bytes
            .range(from.start.0..from.end.0)
            .map(|(va, b)| (*va, *b))
            .collect();
        self.remove(&VirtRange::new(to, to + from.len()));
        self.remove(from);
        self.mapped.push(VirtRange::new(to, to + from.len()));
        self.bytes.extend(
            carried
                .into_iter()
                .map(|(va, b)| (va - from.start.0 + to.0, b)),
        );
    }
}

fn apply<F: PteFormat>(w: &World<F>, s: &Process<F>, model: &mut Model, step: &Step) {
    match *step {
        Step::Write { unit, place, byte } => {
            let va = ARENA + place * UNITS[unit];
            let mapped = model.mapped.iter().any(|m| m.contains(va));
            match w.store((place % 2) as usize, s, va, byte) {
                Ok(()) if mapped => {
                    model.bytes.insert(va.0, byte);
                }
                Err(Resolution::NotMapped) if !mapped => {}
                // Large folios for sparse bytes: memory is soon full.
                Err(Resolution::NoMem) => {}
                other => panic!("{va:?} mapped {mapped}: {other:?}"),
            }
        }
        Step::Move {
            unit,
            from,
            len,
            to,
            skew,
        } => {
            let (start, len) = (ARENA + from * UNITS[unit], len * UNITS[unit]);
            let to = ARENA + to * UNITS[unit] + skew * PAGE_SIZE;
            let (old, new) = (
                VirtRange::new(start, start + len),
                VirtRange::new(to, to + len),
            );
            // What crosses areas is for other tests.
            if !model.covers(&old)
                || old.overlaps(&new)
                || s.vma_at(start).is_none_or(|v| !v.range.covers(&old))
            {
                return;
            }
            if s.remap(start, len, len, FIXED, to, &mut Default::default()) == Ok(to) {
                model.moved(&old, to);
            }
        }
        Step::Level(n) => w.mm.switches().set(Switch::Move, n),
    }
}

fn run_steps<F: PteFormat>(orders: &[u8], contpte: bool, steps: &[Step]) {
    let w = World::<F>::new(Options {
        frames: 4096,
        prefetch: 8,
        ..Options::default()
    });
    w.mm.switches().set(Switch::Contpte, contpte.into());
    sizes(&w, orders);
    let before = w.mm.counts();
    let s = w.process();
    let request = MapRequest {
        flags: VmaFlags::NORESERVE,
        ..anon(Place::Fixed(ARENA), LEN / PAGE_SIZE / 2, RW)
    };
    s.map(request).unwrap();
    let mut model = Model {
        mapped: vec![VirtRange::new(ARENA, ARENA + LEN / 2)],
        ..Model::default()
    };
    for step in steps {
        apply(&w, &s, &mut model, step);
        w.check(&[&s], &[]);
    }
    for (va, byte) in &model.bytes {
        assert_eq!(w.load(0, &s, VirtAddr(*va)), Ok(*byte), "{va:#x}");
    }
    w.check(&[&s], &[]);
    drop(s);
    assert_eq!(before, w.mm.counts());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    #[test]
    fn moves_agree_with_a_plain_model(steps in prop::collection::vec(step(), 1..40), orders in prop_oneof![
        Just(vec![]), Just(vec![4]), Just(vec![9]), Just(vec![2, 4, 6])], contpte: bool) {
        run_steps::<arch_x86_64::pte::Format>(&orders, contpte, &steps);
        run_steps::<arch_aarch64::pte::Format>(&orders, contpte, &steps);
    }
}

on_both! {
    the_largest_entries_move
    a_place_that_is_free_to_choose_is_aligned_alike
    a_move_is_one_flush_and_leaves_the_account_alone
    blocks_arrive_folded
    a_move_without_memory_for_tables_changes_nothing
}

/// At each setting a PGD entry's worth of sparse memory takes as many writes as there are entries
/// of that level, and one for the PGD entry that is hidden first.
fn the_largest_entries_move<F: PteFormat>(w: &World<F>) {
    sizes(w, &[]);
    let sparse = [0, 5, 512, 513, 262_143, 262_144, 511 << 18];
    let tables = |s: &Process<F>| s.usage().page_tables;
    for level in [Level::Pte, Level::Pmd, Level::Pud, Level::Pgd] {
        w.mm.switches().set(Switch::Move, level as u32);
        let entries: BTreeSet<u64> = sparse.iter().map(|n| n >> level.order().0).collect();
        let s = w.process();
        let request = MapRequest {
            flags: VmaFlags::NORESERVE,
            ..anon(Place::Fixed(ARENA), PGD / PAGE_SIZE, RW)
        };
        s.map(request).unwrap();
        for n in sparse {
            w.store(0, &s, ARENA + n * PAGE_SIZE, n as u8).unwrap();
        }
        let counted = || {
            ["remap_entries_moved", "account_updates", "entry_writes"].map(|name| event(w, name))
        };
        let (before, had) = (counted(), tables(&s));
        let to = ARENA + 8 * PGD;
        assert_eq!(
            s.remap(ARENA, PGD, PGD, FIXED, to, &mut Default::default()),
            Ok(to)
        );
        let after = counted();
        assert_eq!(after[0] - before[0], entries.len() as u64, "{level:?}");
        assert_eq!(after[1], before[1]);
        // Tables are made for smaller entries, and hooked in.
        if level == Level::Pgd {
            assert_eq!(after[2] - before[2], 2);
        }
        assert_eq!(tables(&s), had);
        for n in sparse {
            assert_eq!(w.load(1, &s, to + n * PAGE_SIZE), Ok(n as u8));
            assert_eq!(
                w.load(1, &s, ARENA + n * PAGE_SIZE),
                Err(Resolution::NotMapped)
            );
        }
        w.check(&[&s], &[]);
    }
}

/// Where the kernel chooses the place, entries of the largest size can move whole.
fn a_place_that_is_free_to_choose_is_aligned_alike<F: PteFormat>(w: &World<F>) {
    sizes(w, &[]);
    let s = w.process();
    let from = ARENA + 3 * PAGE_SIZE;
    for (len, unit) in [(2 * PGD, PGD), (3 * GIB, GIB), (GIB / 2, 512 * PAGE_SIZE)] {
        let request = MapRequest {
            flags: VmaFlags::NORESERVE,
            ..anon(Place::Fixed(from), len / PAGE_SIZE, RW)
        };
        s.map(request).unwrap();
        // In its way where it stands.
        map(&s, from + len, 1, Prot::READ);
        let longer = len + PAGE_SIZE;
        let to = s.remap(
            from,
            len,
            longer,
            RemapFlags::MAYMOVE,
            VirtAddr(0),
            &mut Default::default(),
        );
        let to = to.expect("there is room");
        assert!(to != from && to.0 % unit == from.0 % unit, "{to:?}");
        s.unmap(to, longer).unwrap();
        s.unmap(from + len, PAGE_SIZE).unwrap();
        w.check(&[&s], &[]);
    }
}

fn a_move_without_memory_for_tables_changes_nothing<F: PteFormat>(w: &World<F>) {
    sizes(w, &[]);
    for level in 0..LEVELS {
        w.mm.switches().set(Switch::Move, level);
        let s = w.process();
        map(&s, AT, 900, RW);
        for n in (0..900).step_by(100) {
            w.store(0, &s, page(n), n as u8).unwrap();
        }
        let to = ARENA + 3 * PAGE_SIZE;
        let mut moved = false;
        for allowed in 0..10 {
            let tables = s.usage().page_tables;
            w.mm.allocator().fail_after(Some(allowed));
            let result = s.remap(
                AT,
                900 * PAGE_SIZE,
                900 * PAGE_SIZE,
                FIXED,
                to,
                &mut Default::default(),
            );
            w.mm.allocator().fail_after(None);
            w.check(&[&s], &[]);
            if result.is_ok() {
                moved = true;
                break;
            }
            assert_eq!(s.usage().page_tables, tables);
            assert_eq!(w.load(0, &s, page(100)), Ok(100));
        }
        assert!(moved);
        assert_eq!(w.load(0, &s, to + 800 * PAGE_SIZE), Ok(32));
    }
}

/// A head, a body and a tail, in folios of 64 KiB: one flush, unless an end cuts a block.
fn a_move_is_one_flush_and_leaves_the_account_alone<F: PteFormat>(w: &World<F>) {
    sizes(w, &[4]);
    for level in 0..LEVELS {
        w.mm.switches().set(Switch::Move, level);
        let s = w.process();
        let request = MapRequest {
            flags: VmaFlags::NORESERVE,
            ..anon(Place::Fixed(AT), 1600, RW)
        };
        s.map(request).unwrap();
        for n in (0..1600).step_by(64) {
            w.store(0, &s, page(n), n as u8).unwrap();
        }
        let (start, len) = (page(32), 1536 * PAGE_SIZE);
        for to in [ARENA + 32 * PAGE_SIZE, ARENA + 16 * PAGE_SIZE + 6 * GIB] {
            let from = if to.0 < (ARENA + GIB).0 {
                start
            } else {
                ARENA + 32 * PAGE_SIZE
            };
            let counted = || {
                ["tlb_flush_range", "account_updates", "account_atomics"].map(|name| event(w, name))
            };
            let before = counted();
            assert_eq!(
                s.remap(from, len, len, FIXED, to, &mut Default::default()),
                Ok(to)
            );
            let [flushes, updates, atomics] = before;
            assert_eq!(counted(), [flushes + 1, updates, atomics], "level {level}");
            w.check(&[&s], &[]);
        }
    }
}

/// By a multiple of 64 KiB that is none of 2 MiB, whole blocks stay folded; to where they do not
/// fit and back, they are again.
fn blocks_arrive_folded<F: PteFormat>(w: &World<F>) {
    sizes(w, &[4]);
    let s = w.process();
    map(&s, AT, 640, RW);
    for n in 0..640 {
        w.store(0, &s, page(n), n as u8).unwrap();
    }
    let folded = |at: VirtAddr| s.smaps(at).expect("it is mapped").folios[4].contpte;
    let all = folded(AT);
    assert_eq!(all, F::CONTIG_ORDER.map_or(0, |_| 40));
    let len = 640 * PAGE_SIZE;
    let mut from = AT;
    for (to, blocks) in [
        (ARENA + 48 * PAGE_SIZE, all),
        (ARENA + GIB + 5 * PAGE_SIZE, 0),
        (ARENA + 2 * GIB + 80 * PAGE_SIZE, all),
    ] {
        assert_eq!(
            s.remap(from, len, len, FIXED, to, &mut Default::default()),
            Ok(to)
        );
        assert_eq!(folded(to), blocks, "{to:?}");
        w.check(&[&s], &[]);
        from = to;
    }
}

fn event<F: PteFormat>(w: &World<F>, name: &str) -> u64 {
    w.mm.event(name).expect("a counter")
}
