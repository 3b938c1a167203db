//! The other CPUs, before there are threads: `./run.sh test` runs these with several.

use crate::arch;
use crate::arch::timer;
use crate::base::cpus::{self, State};
use crate::base::requests::{self, Requests};
use arch_boot::cpus::NR_CPUS;
use arch_boot::waited::Waited;

/// How long an answer may take, in ns of the CPU that waits. Many times what the emulator needs.
const TIME: u64 = 1_000_000_000;
/// How long one CPU looks while the others stand still, in ns. Many times what they spin.
const LONG_LOOK: u64 = 20_000_000;

/// That there are other CPUs.
fn several() -> Result<(), ktest::Failure> {
    match cpus::others().next() {
        Some(_) => Ok(()),
        None => Err(ktest::Failure::Skipped("one CPU on this machine")),
    }
}

/// Looks until something is so, for a limited time.
fn in_time(mut is_so: impl FnMut() -> bool) {
    let (waited, mut looks) = (Waited::new(), 0);
    while !is_so() && waited.spin(looks, timer::now).unwrap_or(0) < TIME {
        arch::cpus::relax();
        looks += 1;
    }
}

/// The pings that each CPU has answered, by number.
struct Pings([u64; NR_CPUS]);

impl Pings {
    fn now() -> Pings {
        Pings(core::array::from_fn(requests::pings))
    }

    /// Waits until every CPU has answered as many as here, for a limited time; the first that has
    /// another number.
    fn differ(&self) -> Option<usize> {
        let mut other = None;
        in_time(|| {
            let now = Pings::now();
            other = (0..NR_CPUS).find(|number| now.0[*number] != self.0[*number]);
            other.is_none()
        });
        other
    }
}

ktest::ktest! {
    /// All CPUs with a number are up, and each is another one.
    fn each_cpu_is_up(ctx) {
        several()?;
        ktest::check_eq!(ctx, (cpus::current(), cpus::this().state()), (0, State::Up));
        for number in 0..cpus::present() {
            let cpu = cpus::of(number);
            ktest::check!(ctx, cpu.state() == State::Up, "CPU {number}");
            let twin = (0..number).any(|other| cpus::of(other).id() == cpu.id());
            ktest::check!(ctx, !twin, "two CPUs say that they are {:#x}", cpu.id());
        }
    }
}

ktest::ktest! {
    /// Every CPU has turned on what the first one has.
    fn each_cpu_is_set_up_alike(ctx) {
        several()?;
        for number in cpus::others() {
            ktest::check_eq!(ctx, cpus::of(number).controls(), arch::cpus::controls());
        }
    }
}

ktest::ktest! {
    /// Each CPU answers each ping to all, once.
    fn all_answer_a_ping(ctx) {
        several()?;
        let mut expected = Pings::now();
        for _ in 0..100 {
            let asked = requests::ask_others(Requests::PING);
            ktest::check!(ctx, asked == cpus::present() - 1, "{asked} are asked");
            cpus::others().for_each(|number| expected.0[number] += 1);
            let other = expected.differ();
            ktest::check!(ctx, other.is_none(), "CPU {other:?}");
        }
    }
}

ktest::ktest! {
    /// A ping to one CPU is answered by that one alone.
    fn one_answers_a_ping(ctx) {
        several()?;
        let mut expected = Pings::now();
        for number in cpus::others() {
            expected.0[number] += 1;
            requests::ask(number, Requests::PING);
            let other = expected.differ();
            ktest::check!(ctx, other.is_none(), "CPU {other:?} when {number} is asked");
        }
    }
}

ktest::ktest! {
    /// Each CPU's own timer interrupts it.
    fn each_cpu_has_a_timer(ctx) {
        several()?;
        for number in cpus::others() {
            let before = cpus::of(number).alarms();
            requests::ask(number, Requests::ALARM);
            in_time(|| cpus::of(number).alarms() != before);
            ktest::check!(ctx, cpus::of(number).alarms() == before + 1, "CPU {number}");
        }
    }
}

ktest::ktest! {
    /// CPUs that sleep at a rendezvous serve afterwards what they were asked meanwhile.
    fn a_long_rendezvous_loses_no_request(ctx) {
        several()?;
        let mut expected = Pings::now();
        let long = || {
            let end = timer::now() + LONG_LOOK;
            while timer::now() < end {
                arch::cpus::relax();
            }
        };
        let asked = requests::rendezvous(|| {
            // Those that have come are asleep then.
            long();
            let asked = requests::ask_others(Requests::PING);
            // And again.
            long();
            asked
        });
        ktest::check!(ctx, asked == cpus::present() - 1, "{asked} are asked");
        cpus::others().for_each(|number| expected.0[number] += 1);
        let other = expected.differ();
        ktest::check!(ctx, other.is_none(), "CPU {other:?}");
    }
}
