//! Schedules of a model.

use crate::common::seeds;
use mm::mutant::{self, Mutant};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, Runner};
use std::panic::catch_unwind;

/// Schedules by each scheduler.
const TIMES: usize = 150;
/// Changes of priority in a schedule of PCT: it finds each fault that needs no more of them with a
/// known probability (Burckhardt et al., ASPLOS 2010).
const DEPTH: usize = 3;
/// Bytes of a stack: those of a thread of the host are larger, too.
const STACK: usize = 1 << 20;

fn run(scheduler: impl Scheduler + 'static, persistence: FailurePersistence, model: fn()) {
    let mut config = Config::new();
    config.stack_size = STACK;
    config.failure_persistence = persistence;
    config.silence_warnings = true;
    // What a failed CPU left locked stays so.
    config
        .ungraceful_shutdown_config
        .immediately_return_on_panic = true;
    Runner::new(scheduler, config).run(model);
}

fn explore(seed: u64, persistence: &FailurePersistence, model: fn()) {
    let pct = PctScheduler::new_from_seed(seed, DEPTH, TIMES);
    run(pct, persistence.clone(), model);
    let random = RandomScheduler::new_from_seed(seed, TIMES);
    run(random, persistence.clone(), model);
}

/// Whether the model holds in all schedules. The one in which it does not is printed, for
/// `shuttle::replay`.
pub fn holds(model: fn()) {
    seeds::each(1, |seed| explore(seed, &FailurePersistence::Print, model));
}

/// Whether a schedule shows that a rule is broken.
pub fn catches(mutant: Mutant, model: fn()) {
    mutant::set(Some(mutant));
    let seen = catch_unwind(|| explore(1, &FailurePersistence::None, model));
    mutant::set(None);
    assert!(seen.is_err(), "{mutant:?} is not seen");
}
