//! Seeds of the random tests. Each test has a fixed one. `SEED=N` adds N, and `SEED_SECONDS=S` new
//! ones until so many seconds have passed.

#[cfg(not(shuttle))]
use proptest::strategy::Strategy;
#[cfg(not(shuttle))]
use proptest::test_runner::{RngSeed, TestError, TestRunner};
use std::hash::{BuildHasher, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

/// Cases of one test, of which a failed one is made shorter by so many tries at most.
#[cfg(not(shuttle))]
const SHRINK: u32 = 400;

/// Runs a test once for each seed; a failure says how to repeat it.
pub fn each(fixed: u64, test: impl Fn(u64)) {
    run_each(std::iter::once(fixed).chain(number("SEED")), test);
}

/// The same for a test that costs too much for two: `SEED` takes the place of the fixed one.
#[allow(dead_code, reason = "most tests are cheap")]
pub fn each_instead(fixed: u64, test: impl Fn(u64)) {
    run_each(std::iter::once(number("SEED").unwrap_or(fixed)), test);
}

fn run_each(first: impl Iterator<Item = u64>, test: impl Fn(u64)) {
    let mut rounds = 0;
    for seed in first.chain(new()) {
        if let Err(why) = catch_unwind(AssertUnwindSafe(|| test(seed))) {
            let thread = std::thread::current();
            let name = thread.name().unwrap_or_default();
            eprintln!(
                "{name} fails with seed {seed}: SEED={seed} cargo test --package arch-sim --test {} {name}",
                env!("CARGO_CRATE_NAME")
            );
            resume_unwind(why);
        }
        rounds += 1;
    }
    println!("{rounds} seeds");
}

/// The number in an environment variable.
pub fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{name} is a number, not {text:?}")))
}

/// New seeds for `SEED_SECONDS`.
fn new() -> impl Iterator<Item = u64> {
    let end = number("SEED_SECONDS").map(|s| Instant::now() + Duration::from_secs(s));
    std::iter::from_fn(move || {
        let seed = RandomState::new().hash_one(0) >> 32;
        (Instant::now() < end?).then(|| {
            println!("seed {seed}");
            seed
        })
    })
}

/// Runs a test on random cases of one seed.
#[cfg(not(shuttle))]
pub fn run<S: Strategy>(cases: u32, seed: u64, strategy: &S, test: impl Fn(S::Value)) {
    let config = proptest::test_runner::Config {
        cases,
        max_shrink_iters: SHRINK,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(seed),
        ..Default::default()
    };
    let result = TestRunner::new(config).run(strategy, |value| {
        test(value);
        Ok(())
    });
    match result {
        Ok(()) => {}
        Err(TestError::Fail(why, case)) => panic!("{why}; the shortest case: {case:#?}"),
        Err(why) => panic!("{why}"),
    }
}
