//! The walks: what each case is like, how many there are, and that nothing is left behind.

use super::steps::{LARGE, MIDDLE, SMALL, Shape, Step, begin, sizes, step};
use super::*;
use ktest::settings;
use mm::thp::controls::SizeEnabled;
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};

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

fn config(cases: u32, seed: u64) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(seed),
        ..ProptestConfig::default()
    }
}

/// What the machine and the memory manager are like in one case.
#[derive(Clone, Copy, Debug)]
struct Case {
    seed: u64,
    asids: usize,
    hardware_ad: bool,
    contpte: bool,
    sizes: u32,
}

fn case() -> impl Strategy<Value = Case> {
    let asids = prop_oneof![Just(1), Just(3), Just(64)];
    let contpte = prop::bool::weighted(0.8);
    (any::<u64>(), asids, any::<bool>(), contpte, sizes()).prop_map(
        |(seed, asids, hardware_ad, contpte, sizes)| Case {
            seed,
            asids,
            hardware_ad,
            contpte,
            sizes,
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
        ..Options::default()
    };
    let mut bench = Bench::<F>::new(options, shape, words);
    bench.run(&Step::Turn(Switch::Contpte, case.contpte.into()));
    set_sizes(&bench.world, case.sizes);
    let tables = bench.world.mm.counts().page_tables;
    first.iter().chain(steps).for_each(|step| bench.run(step));
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

/// A test for each shape and format: cases, frames, steps.
macro_rules! play {
    ($($name:ident: $shape:ident, $cases:literal, $frames:literal, $steps:literal;)*) => {$(
        mod $name {
            use super::*;
            proptest! {
                #![proptest_config(config($cases, 0x51))]
                #[test]
                fn x86_64(case in case(), steps in (begin($shape), prop::collection::vec(step($shape), 1..$steps))) {
                    play::<arch_x86_64::pte::Format>(($shape, $frames, ""), case, &steps);
                }
                #[test]
                fn aarch64(case in case(), steps in (begin($shape), prop::collection::vec(step($shape), 1..$steps))) {
                    play::<arch_aarch64::pte::Format>(($shape, $frames, ""), case, &steps);
                }
            }
        }
    )*};
}

play! {
    small: SMALL, 200, 512, 160;
    middle: MIDDLE, 150, 4096, 160;
    large: LARGE, 40, 16384, 120;
}

/// Walks under each line of a set of settings in which each two of different switches meet.
fn in_pairs<F: PteFormat>(contpte: bool) {
    for (line, words) in settings::lines(contpte).iter().enumerate() {
        for (shape, cases, frames, most) in [
            (SMALL, 8, 512, 160),
            (MIDDLE, 12, 4096, 160),
            (LARGE, 4, 16384, 120),
        ] {
            let walk = (
                case(),
                (begin(shape), prop::collection::vec(step(shape), 1..most)),
            );
            let result = TestRunner::new(config(cases, line as u64)).run(&walk, |(case, steps)| {
                play::<F>((shape, frames, words), case, &steps);
                Ok(())
            });
            if let Err(why) = result {
                panic!("with {words}: {why}");
            }
        }
    }
}

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
