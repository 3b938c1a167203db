//! Counts as values, presets, and the estimate of cycles.

mod common;

use common::{Memory, Random, SMALL, X86_PAGE, x86};
use models::estimate::cycles;
use models::figures::{Served, Translated};
use models::{Access, Figures, Flush, Machine, presets};
use std::collections::BTreeSet;

fn served(counts: [u64; 5]) -> Served {
    let [l1, l2, last, remote, memory] = counts;
    Served {
        l1,
        l2,
        last,
        remote,
        memory,
    }
}

#[test]
fn names_and_sums() {
    let figures = Figures {
        data: served([2, 4, 6, 8, 10]),
        dtlb: Translated {
            l1: 12,
            l2: 14,
            walks: 16,
        },
        ..Figures::default()
    };
    assert_eq!((figures.data.all(), figures.data.l1_misses()), (30, 28));
    assert_eq!((figures.dtlb.all(), figures.dtlb.l1_misses()), (42, 30));
    let fields: Vec<(String, u64)> = figures.fields().collect();
    assert_eq!(fields[0], ("data_l1".to_owned(), 2));
    assert!(fields.contains(&("dtlb_walks".to_owned(), 16)));
    assert!(fields.contains(&("flushed".to_owned(), 0)));
    let names: BTreeSet<&String> = fields.iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), fields.len());
}

/// By hand, with latencies 4, 10, 40, 80, 200 and 7, and four instructions a cycle.
#[test]
fn estimate_by_hand() {
    let figures = Figures {
        data: served([100, 10, 5, 2, 1]),
        fetch: served([50, 1, 0, 0, 0]),
        walk: served([3, 1, 0, 0, 0]),
        dtlb: Translated {
            l1: 90,
            l2: 6,
            walks: 3,
        },
        itlb: Translated {
            l1: 40,
            l2: 0,
            walks: 1,
        },
        ..Figures::default()
    };
    let estimate = cycles(&SMALL, 1000, &figures);
    assert_eq!(estimate.base, 250);
    assert_eq!(estimate.data, 10 * 6 + 5 * 36 + 2 * 76 + 196);
    assert_eq!(estimate.fetch, 6);
    assert_eq!(estimate.translation, 10 * 7 + 3 * 4 + 10);
    assert_eq!(estimate.total(), 250 + 588 + 6 + 92);
    assert_eq!(cycles(&SMALL, 0, &Figures::default()).total(), 0);
}

/// Each preset can be modelled; its latencies grow with the distance.
#[test]
fn all_presets() {
    for preset in presets::ALL {
        Machine::new(*preset, 8).expect(preset.name);
        assert_eq!(presets::named(preset.name), Some(*preset));
        let l = preset.latencies;
        assert!(l.l1 < l.l2 && l.l2 <= l.last && l.last < l.remote && l.remote < l.memory);
    }
    assert_eq!(presets::named("486"), None);
}

/// Two runs of one stream by several CPUs count the same, and nothing is counted twice or lost.
#[test]
fn the_same_twice() {
    let mut memory = Memory::new(0x100000);
    for page in 0..512 {
        memory.map_x86(page << 12, 12, (page * 7 % 512) << 12 | X86_PAGE);
    }
    for preset in presets::ALL.iter().chain([&SMALL]) {
        let run = || {
            let mut machine = Machine::new(*preset, 3).expect("a preset");
            (0..3).for_each(|cpu| machine.set_roots(cpu, x86(cpu as u64)));
            let mut random = Random(7);
            for step in 0..30_000 {
                let (cpu, address) = (random.below(3) as usize, random.below(512 << 9) * 8);
                match random.below(4) {
                    0 => machine.access(cpu, Access::write(address, 8), &memory),
                    1 => machine.fetch(cpu, Access::read(address, 8), &memory),
                    _ => machine.access(cpu, Access::read(address, 8), &memory),
                }
                if step % 1000 == 0 {
                    machine.flush_everywhere(&Flush::Tag(1));
                }
            }
            [0, 1, 2].map(|cpu| machine.figures(cpu))
        };
        let figures = run();
        assert_eq!(figures, run());
        let sum = |count: fn(&Figures) -> u64| figures.iter().map(count).sum::<u64>();
        assert_eq!(sum(|of| of.data.all() + of.fetch.all()), 30_000);
        assert_eq!(sum(|of| of.data.all()), sum(|of| of.dtlb.all()));
        assert_eq!(sum(|of| of.fetch.all()), sum(|of| of.itlb.all()));
        let walks = sum(|of| of.dtlb.walks + of.itlb.walks);
        assert_eq!(sum(|of| of.walk.all() + of.events.skipped), walks * 4);
        assert_eq!(sum(|of| of.events.flushes), 90);
        assert_eq!(sum(|of| of.events.unresolved), 0);
    }
}
