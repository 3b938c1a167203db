//! The walks: what each case is like, how many there are, and that nothing is left behind.
//!
//! Walks under lines of settings (`pairs_of_settings`) cost three times as much as all others. So a
//! run tries a third of the lines, which `SEED` chooses; `PAIRS=all` tries all, `PAIRS=N` line N.

use super::steps::{
    HUGE, LARGE, LARGE_HUGE, MIDDLE, SMALL, SMALL_HUGE, Shape, Step, begin, sizes, step,
};
use super::*;
use crate::common::seeds;
use arch_sim::Hole;
use ktest::settings;
use mm::hugetlb;
use mm::thp::controls::{ShmemSize, SizeEnabled};
use proptest::prelude::*;

/// Folios may have the orders of which the bit is set.
pub(super) fn set_sizes<F: PteFormat>(world: &World<F>, orders: u32) {
    world.mm.thp().controls.change(|settings| {
        for (order, size) in settings.sizes.iter_mut().enumerate() {
            *size = if orders & 1 << order != 0 {
                SizeEnabled::Always
            } else {
                SizeEnabled::Never
            };
        }
        // Objects have the same, in every second set before their ends only.
        for (order, size) in settings.shmem_sizes.iter_mut().enumerate() {
            *size = match (orders & 1 << order != 0, orders.count_ones() % 2) {
                (false, _) => ShmemSize::Never,
                (true, 0) => ShmemSize::WithinSize,
                (true, _) => ShmemSize::Always,
            };
        }
    });
}

/// Sets a switch by `NAME=WORD`.
pub(super) fn set<F: PteFormat>(world: &World<F>, words: &str) -> Switch {
    let (name, word) = words.split_once('=').expect("a switch and its word");
    let switch = Switch::by_name(name).expect("a switch");
    let number = switch.number(word).expect("one of its words");
    world.mm.switches().set(switch, number);
    switch
}

/// What the machine and the memory manager are like in one case.
#[derive(Clone, Copy, Debug)]
struct Case {
    seed: u64,
    asids: usize,
    hardware_ad: bool,
    contpte: bool,
    sizes: u32,
    hole: Option<Hole>,
    slots: usize,
    pressed: bool,
}

/// A hole in RAM: in the middle, at any alignment, or none.
fn hole() -> impl Strategy<Value = Option<Hole>> {
    let some = (100..300usize, 1..40usize).prop_map(|(first, frames)| Hole { first, frames });
    prop::option::of(some)
}

fn case() -> impl Strategy<Value = Case> {
    let asids = prop_oneof![Just(1), Just(3), Just(64)];
    let contpte = prop::bool::weighted(0.8);
    let slots = prop::sample::select(vec![0, 64, 1024, 8192]);
    let pressed = prop::bool::weighted(0.3);
    let swap = (slots, pressed);
    (
        any::<u64>(),
        asids,
        any::<bool>(),
        contpte,
        sizes(),
        hole(),
        swap,
    )
        .prop_map(
            |(seed, asids, hardware_ad, contpte, sizes, hole, (slots, pressed))| Case {
                seed,
                asids,
                hardware_ad,
                contpte,
                sizes,
                hole,
                slots,
                pressed,
            },
        )
}

/// One walk; `words`: switches that are set at boot and stay.
fn play<F: PteFormat>(
    (shape, frames, words): (Shape, usize, &str),
    case: Case,
    (first, steps): &(Option<Step>, Vec<Step>),
) {
    let options = Options {
        frames,
        asids: case.asids,
        hardware_ad: case.hardware_ad,
        seed: case.seed,
        hole: case.hole,
        slots: case.slots,
        ..Options::default()
    };
    let mut bench = Bench::<F>::new(options, shape, words);
    bench.pressed = case.pressed;
    bench.run(&Step::Turn(Switch::Contpte, case.contpte.into()));
    set_sizes(&bench.world, case.sizes);
    let tables = bench.world.mm.counts().page_tables;
    first.iter().chain(steps).for_each(|step| bench.run(step));
    bench.check_written();
    let Bench {
        world,
        processes,
        objects,
        pins,
        ..
    } = bench;
    drop(processes);
    drop(pins);
    drop(objects);
    let counts = world.mm.counts();
    // The idle root and the zero page are all that is left.
    assert_eq!(
        (
            counts.anon,
            counts.object,
            counts.page_tables,
            counts.kernel
        ),
        (0, 0, tables - 1, 1)
    );
    world.check(&[], &[]);
}

/// What a walk is like: what the processes play with, how many walks there are, frames of RAM and
/// steps at most.
#[derive(Clone, Copy)]
struct Walk {
    shape: Shape,
    cases: u32,
    frames: usize,
    steps: usize,
}

const WALKS: [Walk; 6] = [
    Walk {
        shape: SMALL,
        cases: 200,
        frames: 512,
        steps: 160,
    },
    Walk {
        shape: MIDDLE,
        cases: 150,
        frames: 4096,
        steps: 160,
    },
    Walk {
        shape: LARGE,
        cases: 40,
        frames: 16384,
        steps: 120,
    },
    Walk {
        shape: HUGE,
        cases: 12,
        frames: 40960,
        steps: 100,
    },
    Walk {
        shape: SMALL_HUGE,
        cases: 40,
        frames: 4096,
        steps: 100,
    },
    Walk {
        shape: LARGE_HUGE,
        cases: 2,
        frames: 40 << 13,
        steps: 60,
    },
];

impl Walk {
    /// Whether a machine has pages of that size.
    fn fits<F: PteFormat>(&self) -> bool {
        !self.shape.huge || hugetlb::sizes::<F>().contains(&self.shape.order())
    }

    /// Plays walks of one seed, with switches that are set at boot.
    fn play<F: PteFormat>(&self, seed: u64, words: &str) {
        assert!(self.fits::<F>(), "a walk that would do nothing");
        let shape = self.shape;
        let steps = (
            begin(shape),
            prop::collection::vec(step(shape), 1..self.steps),
        );
        seeds::run(self.cases, seed, &(case(), steps), |(case, steps)| {
            play::<F>((shape, self.frames, words), case, &steps);
        });
    }
}

/// A test for each walk and format.
macro_rules! play {
    ($($name:ident: $walk:literal, $($format:ident of $machine:ident),*;)*) => {$(
        mod $name {
            use super::*;
            $(#[test]
            fn $format() {
                seeds::each(0x51, |seed| WALKS[$walk].play::<$machine::pte::Format>(seed, ""));
            })*
        }
    )*};
}

play! {
    small: 0, x86_64 of arch_x86_64, aarch64 of arch_aarch64;
    middle: 1, x86_64 of arch_x86_64, aarch64 of arch_aarch64;
    large: 2, x86_64 of arch_x86_64, aarch64 of arch_aarch64;
    huge: 3, x86_64 of arch_x86_64, aarch64 of arch_aarch64;
    small_huge: 4, aarch64 of arch_aarch64;
    large_huge: 5, aarch64 of arch_aarch64;
}

/// Which lines of settings are tried in pairs.
#[derive(Clone, Copy)]
enum Lines {
    /// Every third one, from one that the seed chooses.
    Third,
    /// `PAIRS=all`.
    All,
    /// `PAIRS=N`: the one with this number.
    One(usize),
}

impl Lines {
    fn chosen() -> Lines {
        match std::env::var("PAIRS").as_deref() {
            Err(_) => Lines::Third,
            Ok("all") => Lines::All,
            Ok(n) => Lines::One(n.parse().expect("PAIRS is `all` or the number of a line")),
        }
    }
    fn have(self, line: usize, seed: u64) -> bool {
        match self {
            Lines::Third => line as u64 % 3 == seed % 3,
            Lines::All => true,
            Lines::One(one) => line == one,
        }
    }
}

/// Walks under lines of a set of settings in which each two of different switches meet. Each line
/// says how it alone is repeated; the output of a test that fails ends with the one that failed.
fn in_pairs<F: PteFormat>(contpte: bool) {
    let fewer = [8, 12, 4, 0, 4, 0];
    let walks = WALKS.into_iter().zip(fewer);
    let walks = walks.map(|(walk, cases)| Walk { cases, ..walk });
    let walks: Vec<Walk> = walks.filter(Walk::fits::<F>).collect();
    let (lines, all) = (Lines::chosen(), settings::lines(contpte));
    seeds::each_instead(0, |seed| {
        let chosen = all.iter().enumerate();
        let chosen: Vec<_> = chosen.filter(|(n, _)| lines.have(*n, seed)).collect();
        assert!(!chosen.is_empty(), "there are {} lines", all.len());
        for (line, words) in chosen {
            println!(
                "PAIRS={line} SEED={seed} repeats line {line} of {}: {words}",
                all.len()
            );
            let seed = seed.wrapping_add(line as u64);
            walks.iter().for_each(|walk| walk.play::<F>(seed, words));
        }
    });
}

/// A third of the lines by default, which `SEED` chooses; `PAIRS=all` takes all of them.
mod pairs_of_settings {
    use super::*;

    #[test]
    fn x86_64() {
        in_pairs::<arch_x86_64::pte::Format>(false);
    }
    #[test]
    fn aarch64() {
        in_pairs::<arch_aarch64::pte::Format>(true);
    }
}
