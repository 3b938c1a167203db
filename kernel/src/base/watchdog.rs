//! Waits of one CPU for another in the kernel: what the CPU does meanwhile, and a panic with all
//! backtraces when a wait does not end.

use crate::arch;
use crate::arch::timer;
use crate::base::cpus;
use arch_boot::cpus::NR_CPUS;
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use mm::sync::rank;

/// How long a wait may take, in ns.
const LONGEST: u64 = 20_000_000_000;
/// Looks between two looks at the clock.
pub const LOOKS: u64 = 1024;

/// By CPU, when its wait began. Only that CPU uses it.
static SINCE: [AtomicU64; NR_CPUS] = [const { AtomicU64::new(0) }; NR_CPUS];

/// Between two looks at a lock of `rank`; `looks` came before.
pub fn spin(rank: u8, looks: u64) {
    // The one that has it may wait for an answer. Above the console's there are those of the
    // requests themselves, and of the log: who has these waits for nobody, and an answer would
    // take them again.
    if rank <= rank::CONSOLE {
        cpus::answer();
    }
    wait(looks, &format_args!("a lock of rank {rank}"));
}

/// Between two looks at `what` another CPU has or does; `looks` came before.
pub fn wait(looks: u64, what: &dyn fmt::Display) {
    arch::cpus::relax();
    if looks.is_multiple_of(LOOKS) {
        check(looks == 0, what);
    }
}

/// Panics if the wait has taken too long. `begins`: it begins now.
fn check(begins: bool, what: &dyn fmt::Display) {
    let since = &SINCE[cpus::current()];
    let now = timer::now();
    if begins {
        since.store(now, Relaxed);
    } else if now.saturating_sub(since.load(Relaxed)) > LONGEST {
        panic!(
            "waits for {what} for more than {} s",
            LONGEST / 1_000_000_000
        );
    }
}
