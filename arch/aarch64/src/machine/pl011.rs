//! A PL011 (Arm DDI 0183), as the firmware set its speed.

use super::mmio::Mmio;

/// Data.
const DR: u64 = 0x00;
/// Flags: receive FIFO empty, transmit FIFO full.
const FR: u64 = 0x18;
const FR_RXFE: u32 = 1 << 4;
const FR_TXFF: u32 = 1 << 5;
/// Line control: 8 bits, FIFOs on.
const LCR_H: u64 = 0x2c;
const LCR_8N1_FIFO: u32 = 0b11 << 5 | 1 << 4;
/// Control: receive, transmit, on.
const CR: u64 = 0x30;
const CR_ON: u32 = 1 << 9 | 1 << 8 | 1;
/// Interrupt FIFO levels, mask, clear.
const IFLS: u64 = 0x34;
const IMSC: u64 = 0x38;
const ICR: u64 = 0x44;
/// Receive, and receive timeout (fewer bytes than the FIFO's level).
const INT_RX: u32 = 1 << 4 | 1 << 6;

/// 8N1, FIFOs on (which empties them), interrupts off.
pub fn init(port: Mmio) {
    port.write(IMSC, 0);
    port.write(ICR, 0x7ff);
    port.write(CR, 0);
    port.write(LCR_H, LCR_8N1_FIFO);
    port.write(CR, CR_ON);
}

/// Enables the interrupt of received bytes.
pub fn enable_interrupt(port: Mmio) {
    port.write(IFLS, 0);
    port.write(IMSC, INT_RX);
}

/// Clears the interrupt; [`get`] then takes the bytes.
pub fn acknowledge(port: Mmio) {
    port.write(ICR, INT_RX);
}

/// Whether another byte can be written.
pub fn has_room(port: Mmio) -> bool {
    port.read(FR) & FR_TXFF == 0
}

/// Writes a byte.
pub fn put(port: Mmio, byte: u8) {
    port.write(DR, u32::from(byte));
}

/// A byte that has arrived, if any.
pub fn get(port: Mmio) -> Option<u8> {
    (port.read(FR) & FR_RXFE == 0).then(|| port.read(DR) as u8)
}
