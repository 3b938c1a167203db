//! Interrupts by vector.

use super::apic::{self, IPI_VECTOR, KEYBOARD_VECTOR, SERIAL_VECTOR, TIMER_VECTOR};
use super::timer;
use arch_boot::trap::Irq;

/// Ends the interrupt at the controller and names its source.
pub fn acknowledge(vector: u8) -> Irq {
    if !apic::end(vector) {
        return Irq::Spurious;
    }
    match vector {
        TIMER_VECTOR if timer::fired() => Irq::Timer,
        TIMER_VECTOR => Irq::Spurious,
        SERIAL_VECTOR | KEYBOARD_VECTOR => Irq::Serial,
        IPI_VECTOR => Irq::Ipi,
        other => Irq::Other(u32::from(other)),
    }
}
