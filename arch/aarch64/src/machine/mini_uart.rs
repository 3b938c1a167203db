//! The mini UART of the Raspberry Pi (BCM2835 ARM Peripherals, 2.2), as the firmware set its speed.

use super::mmio::Mmio;

/// Data.
const IO: u64 = 0x00;
/// Interrupt enable. The manual has the two bits the wrong way round (its errata): bit 0 is
/// receive; 2 and 3 must be set for it, too.
const IER: u64 = 0x04;
const IER_RECEIVE: u32 = 0b1101;
/// Interrupt identify: writing 6 empties both FIFOs.
const IIR: u64 = 0x08;
/// Line control: 8 bits (3, not 1: errata).
const LCR: u64 = 0x0c;
/// Line status: a byte has arrived, the transmitter takes one.
const LSR: u64 = 0x14;
const LSR_READY: u32 = 1;
const LSR_ROOM: u32 = 1 << 5;
/// Control: receiver and transmitter on.
const CNTL: u64 = 0x20;

/// 8N1, interrupts off.
pub fn init(port: Mmio) {
    port.write(IER, 0);
    port.write(LCR, 3);
    port.write(IIR, 6);
    port.write(CNTL, 3);
}

/// Enables the interrupt of received bytes, until they are read.
pub fn enable_interrupt(port: Mmio) {
    port.write(IER, IER_RECEIVE);
}

/// Whether another byte can be written.
pub fn has_room(port: Mmio) -> bool {
    port.read(LSR) & LSR_ROOM != 0
}

/// Writes a byte.
pub fn put(port: Mmio, byte: u8) {
    port.write(IO, u32::from(byte));
}

/// A byte that has arrived, if any.
pub fn get(port: Mmio) -> Option<u8> {
    (port.read(LSR) & LSR_READY != 0).then(|| port.read(IO) as u8)
}
