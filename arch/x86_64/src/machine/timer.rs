//! Clock and timer: the TSC as clock, the local APIC's timer for deadlines.
//!
//! QEMU with `-icount shift=0` counts the TSC in guest nanoseconds, one per instruction, so the
//! frequency is exactly 1 GHz there.

use super::{apic, features, percpu};
use core::arch::x86_64::_rdtsc;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use x86_64::instructions::port::Port;

const GHZ: u64 = 1_000_000_000;
/// Hz of the 8254's input (14.31818 MHz / 12).
const PIT_HZ: u64 = 1_193_182;

static TSC_HZ: AtomicU64 = AtomicU64::new(GHZ);
/// Whether the TSC's frequency is a guess: neither CPUID nor an 8254 gives it.
static GUESSED: AtomicBool = AtomicBool::new(false);
/// Nanoseconds per TSC tick, times 2^32.
static TSC_TO_NS: AtomicU64 = AtomicU64::new(1 << 32);
static TSC_START: AtomicU64 = AtomicU64::new(0);
/// Local APIC timer ticks per TSC tick, times 2^32.
static APIC_PER_TSC: AtomicU64 = AtomicU64::new(1 << 32);

#[inline]
fn tsc() -> u64 {
    // SAFETY: CR4.TSD is clear and only concerns user mode anyway.
    unsafe { _rdtsc() }
}

/// Finds the TSC's frequency and starts the clock at 0.
pub(crate) fn init() {
    TSC_START.store(tsc(), Relaxed);
    let hz = frequency_by_cpuid().unwrap_or_else(frequency_by_pit);
    TSC_HZ.store(hz, Relaxed);
    TSC_TO_NS.store((((GHZ as u128) << 32) / hz as u128) as u64, Relaxed);
}

/// TSC ticks per second.
pub(crate) fn tsc_hz() -> u64 {
    TSC_HZ.load(Relaxed)
}

/// CPUID 0x15 (crystal and ratio), else 0x16 (MHz), else the hypervisor's leaf 0x4000_0010 (kHz).
fn frequency_by_cpuid() -> Option<u64> {
    let id = raw_cpuid::CpuId::new();
    let crystal = id
        .get_tsc_info()
        .and_then(|t| t.tsc_frequency())
        .filter(|&hz| hz > 0);
    let hypervisor = || {
        let leaves = core::arch::x86_64::__cpuid(0x4000_0000).eax;
        let here = id.get_feature_info().is_some_and(|f| f.has_hypervisor());
        let khz = if here && (0x4000_0010..0x4001_0000).contains(&leaves) {
            core::arch::x86_64::__cpuid(0x4000_0010).eax
        } else {
            0
        };
        (khz > 0).then_some(u64::from(khz) * 1000)
    };
    let nominal = || {
        let mhz = id
            .get_processor_frequency_info()
            .map_or(0, |f| f.processor_base_frequency());
        (mhz > 0).then_some(u64::from(mhz) * 1_000_000)
    };
    crystal.or_else(hypervisor).or_else(nominal)
}

/// Measures against the 8254's channel 2. A quarter of a millisecond shows whether time is counted
/// in instructions (1 GHz); if not, the median of three windows of 5 ms, because a busy host may
/// stop us between two reads.
fn frequency_by_pit() -> u64 {
    let Some(first) = measure(PIT_HZ / 4000) else {
        GUESSED.store(true, Relaxed);
        return GHZ;
    };
    if first.abs_diff(GHZ) < GHZ / 100 {
        return GHZ;
    }
    let mut windows = [first; 3];
    for window in &mut windows {
        *window = measure(PIT_HZ / 200).unwrap_or(first);
    }
    windows.sort_unstable();
    windows[1]
}

/// TSC ticks per second over at least `ticks` of the 8254; `None` when there is none.
fn measure(ticks: u64) -> Option<u64> {
    let mut gate = Port::<u8>::new(0x61);
    let mut data = Port::<u8>::new(0x42);
    let mut mode = Port::<u8>::new(0x43);
    // SAFETY: the 8254's channel 2 and its gate (speaker off) are used by nothing else.
    let mut count = || unsafe {
        mode.write(0x80); // latch channel 2
        u16::from(data.read()) | u16::from(data.read()) << 8
    };
    // SAFETY: as above; mode 0 (counts down once), both bytes, from 0xffff.
    unsafe {
        let old = gate.read();
        gate.write(old & !2 | 1);
        Port::<u8>::new(0x43).write(0xb0);
        Port::<u8>::new(0x42).write(0xff);
        Port::<u8>::new(0x42).write(0xff);
    }
    let start = count();
    let from = tsc();
    for _ in 0..1_000_000 {
        let elapsed = u64::from(start.wrapping_sub(count()));
        let to = tsc();
        if elapsed >= ticks {
            return Some((to - from) * PIT_HZ / elapsed);
        }
    }
    None
}

/// Nanoseconds since boot; never goes back. Under -icount shift=0: one per guest instruction.
#[inline]
pub fn now() -> u64 {
    to_ns(tsc() - TSC_START.load(Relaxed))
}

/// The raw counter behind [`now`], for differences.
#[inline]
pub fn ticks() -> u64 {
    tsc()
}

/// Converts a difference of [`ticks`] to nanoseconds.
#[inline]
pub fn ticks_to_ns(ticks: u64) -> u64 {
    to_ns(ticks)
}

#[inline]
fn to_ns(ticks: u64) -> u64 {
    ((u128::from(ticks) * u128::from(TSC_TO_NS.load(Relaxed))) >> 32) as u64
}

/// Prepares the local APIC's timer: TSC deadlines when the CPU has them, else one shot at a
/// measured rate.
pub(crate) fn init_deadlines() {
    if GUESSED.load(Relaxed) {
        log::warn!("neither CPUID nor an 8254 tells how fast the TSC counts: taken for 1 GHz");
    }
    apic::set_timer_mode(features::get().tsc_deadline);
    if features::get().tsc_deadline {
        return;
    }
    let window = tsc_hz() / 20_000; // 50 us
    apic::set_timer_count(u32::MAX);
    let (from, count) = (tsc(), apic::timer_count());
    while tsc() - from < window {}
    let (to, after) = (tsc(), apic::timer_count());
    apic::set_timer_count(0);
    let ratio = (u128::from(count - after) << 32) / u128::from(to - from);
    // QEMU counts both in guest nanoseconds when it counts instructions; a measurement is a few
    // instructions off.
    let exact = tsc_hz() == GHZ && ratio.abs_diff(1 << 32) < (1 << 32) / 50;
    APIC_PER_TSC.store(if exact { 1 << 32 } else { ratio.max(1) as u64 }, Relaxed);
}

/// Sets the deadline: `Irq::Timer` at or soon after `at` (same clock as `now`); `None` for never.
/// Each call replaces the deadline before.
pub fn set_deadline(at: Option<u64>) {
    let deadline = at.map_or(u64::MAX, |ns| {
        let ticks = (u128::from(ns) << 32).div_ceil(u128::from(TSC_TO_NS.load(Relaxed)));
        TSC_START
            .load(Relaxed)
            .saturating_add(ticks.min(u64::MAX as u128) as u64)
    });
    // SAFETY: this CPU's own field; interrupts are off.
    unsafe { (*percpu::this()).deadline = deadline };
    arm(deadline);
}

/// Programs the hardware for a TSC value; the one-shot counter may end early, then `fired` programs
/// the rest.
fn arm(deadline: u64) {
    if features::get().tsc_deadline {
        apic::set_tsc_deadline(if deadline == u64::MAX { 0 } else { deadline });
    } else if deadline == u64::MAX {
        apic::set_timer_count(0);
    } else {
        let left = deadline.saturating_sub(tsc());
        let ticks = (u128::from(left) * u128::from(APIC_PER_TSC.load(Relaxed))) >> 32;
        apic::set_timer_count(ticks.clamp(1, u128::from(u32::MAX)) as u32);
    }
}

/// Handles the timer's interrupt: returns whether the deadline is reached; if not, the timer is
/// programmed again.
pub(crate) fn fired() -> bool {
    // SAFETY: this CPU's own field; interrupts are off.
    let deadline = unsafe { (*percpu::this()).deadline };
    let reached = tsc() >= deadline;
    if !reached {
        arm(deadline);
    }
    reached
}
