//! The console: a 16550 at COM1 (TI PC16550D data sheet; QEMU's `isa-serial` on q35 and microvm).

use super::{apic, keyboard};
use arch_boot::patience::Patience;
use x86_64::instructions::port::Port;

const COM1: u16 = 0x3f8;
/// COM1's interrupt line on every PC.
pub(crate) const ISA_IRQ: u8 = 4;

const DATA: u16 = 0;
const INTERRUPT_ENABLE: u16 = 1;
const FIFO_CONTROL: u16 = 2;
const LINE_CONTROL: u16 = 3;
const MODEM_CONTROL: u16 = 4;
const LINE_STATUS: u16 = 5;

const DATA_READY: u8 = 1 << 0;
const TRANSMIT_EMPTY: u8 = 1 << 5;
/// No port at all: the bus reads as ones.
const NOTHING_THERE: u8 = 0xff;
/// Bytes that fit once the transmitter is empty.
const FIFO: usize = 16;
static PATIENCE: Patience = Patience::new();

fn put(register: u16, value: u8) {
    // SAFETY: COM1's own registers; no other code drives them, and the kernel runs with interrupts
    // off.
    unsafe { Port::new(COM1 + register).write(value) }
}

fn get(register: u16) -> u8 {
    // SAFETY: as in `put`.
    unsafe { Port::new(COM1 + register).read() }
}

/// 115200 baud, 8N1, FIFOs on and empty, interrupts off.
pub(crate) fn init() {
    put(INTERRUPT_ENABLE, 0);
    put(LINE_CONTROL, 0x80); // the divisor latch answers at registers 0 and 1
    put(DATA, 1);
    put(INTERRUPT_ENABLE, 0);
    put(LINE_CONTROL, 0x03);
    put(FIFO_CONTROL, 0x07); // receive interrupt at the first byte
    put(MODEM_CONTROL, 0x0b); // DTR, RTS, OUT2: without OUT2 the interrupt line is cut off
}

/// Enables the interrupt of a received byte: `Irq::Serial`. The line is edge-triggered: read until
/// `None` after each one.
pub(crate) fn enable_interrupt() {
    apic::route_isa(ISA_IRQ, apic::SERIAL_VECTOR);
    put(INTERRUPT_ENABLE, 1);
}

/// Writes bytes, waiting for room. Works from the first instruction of `kernel_main` on.
pub fn write(bytes: &[u8]) {
    for chunk in bytes.chunks(FIFO) {
        PATIENCE.wait(|| get(LINE_STATUS) & TRANSMIT_EMPTY != 0);
        for &byte in chunk {
            put(DATA, byte);
        }
    }
}

/// A byte that has arrived, if any; bytes from the PC's keyboard are included.
pub fn read() -> Option<u8> {
    let status = get(LINE_STATUS);
    let here = status & DATA_READY != 0 && status != NOTHING_THERE;
    here.then(|| get(DATA)).or_else(keyboard::read)
}
