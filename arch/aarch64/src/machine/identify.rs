//! Descriptions of the CPU: /proc/cpuinfo, the boot line, AT_HWCAP.

use super::{features as cpu_features, interrupts, regs};
use core::fmt::{self, Write};

/// The lines of /proc/cpuinfo for one CPU, in Linux's format for this architecture.
pub fn describe(out: &mut dyn Write, number: usize) -> fmt::Result {
    let midr = cpu_features::midr(number);
    let frequency = regs::read!("cntfrq_el0");
    writeln!(out, "processor\t: {number}")?;
    writeln!(
        out,
        "BogoMIPS\t: {}.{:02}",
        frequency / 500_000,
        frequency / 5_000 % 100
    )?;
    write!(out, "Features\t:")?;
    for name in cpu_features::names() {
        write!(out, " {name}")?;
    }
    writeln!(out)?;
    writeln!(out, "CPU implementer\t: {:#04x}", midr >> 24 & 0xff)?;
    writeln!(out, "CPU architecture: 8")?;
    writeln!(out, "CPU variant\t: {:#x}", midr >> 20 & 0xf)?;
    writeln!(out, "CPU part\t: {:#05x}", midr >> 4 & 0xfff)?;
    writeln!(out, "CPU revision\t: {}\n", midr & 0xf)
}

/// Writes the features in use for the boot line ("uxn pxn asid16 pan haf dbm").
pub fn features(out: &mut dyn Write) -> fmt::Result {
    write!(
        out,
        "uxn pxn asid{}",
        if cpu_features::has_asid16() { 16 } else { 8 }
    )?;
    for (name, on) in [
        ("pan", cpu_features::has_pan()),
        ("haf", cpu_features::hafdbs() >= 1),
        ("dbm", cpu_features::hafdbs() >= 2),
        ("rndr", cpu_features::has_rng()),
    ] {
        if on {
            write!(out, " {name}")?;
        }
    }
    write!(out, " ")?;
    interrupts::describe(out)
}

/// AT_HWCAP, AT_HWCAP2.
pub fn hwcap() -> (u64, u64) {
    cpu_features::hwcap()
}
