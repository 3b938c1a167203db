//! The devices of a board: from its device tree ([`fdt`](super::fdt)) or, on a Raspberry Pi whose
//! firmware passed none, built in.

use arrayvec::ArrayVec;
use mm::addr::PhysRange;

/// The kind of interrupt controller, and its register windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Controller {
    /// GICv2: distributor, CPU interface.
    GicV2(PhysRange, PhysRange),
    /// GICv3: distributor, the first region of redistributors.
    GicV3(PhysRange, PhysRange),
    /// Raspberry Pi 3: the cores' controller, the peripherals'.
    Bcm2836(PhysRange, PhysRange),
}

/// The kind of a serial port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UartKind {
    /// Arm's PL011.
    Pl011,
    /// The Raspberry Pi's mini UART.
    Mini,
}

/// A serial port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uart {
    /// Its kind.
    pub kind: UartKind,
    /// Its registers, in physical memory.
    pub window: PhysRange,
    /// Its interrupt by the controller's number (GIC: INTID; Raspberry Pi 3: 32 a bank), when it is
    /// known.
    pub interrupt: Option<u32>,
}

/// The devices the kernel drives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Devices {
    /// The console.
    pub uart: Option<Uart>,
    /// The interrupt controller.
    pub controller: Option<Controller>,
    /// The clock: a PL031's registers.
    pub rtc: Option<PhysRange>,
    /// The virtual timer's interrupt, an INTID, where the controller leaves a choice.
    pub timer: Option<u32>,
    /// PSCI by `smc` (true) or `hvc`.
    pub psci_smc: Option<bool>,
    /// The Raspberry Pi's watchdog.
    pub watchdog: Option<PhysRange>,
    /// The mailbox of the Raspberry Pi's firmware; only used before [`windows`](Self::windows) are
    /// mapped for good.
    pub mailbox: Option<PhysRange>,
}

impl Devices {
    /// Their register windows, in whole pages; the mailbox's is not among them.
    pub fn windows(&self) -> ArrayVec<PhysRange, 16> {
        let controller = match self.controller {
            Some(Controller::GicV2(a, b) | Controller::GicV3(a, b) | Controller::Bcm2836(a, b)) => {
                [Some(a), Some(b)]
            }
            None => [None, None],
        };
        let others = [self.uart.map(|uart| uart.window), self.rtc, self.watchdog];
        let all = others.into_iter().chain(controller).flatten();
        all.map(arch_boot::memory::whole_pages_around).collect()
    }
}

/// The GPIO register with the functions of pins 10 to 19, three bits each (BCM2835 ARM Peripherals,
/// 6.1).
pub const GPFSEL1: u64 = 0x04;

/// The serial port at the header's pin 8, which is GPIO 14, by that register: function 5 is the
/// mini UART's TXD, function 0 the PL011's.
pub fn at_the_pins(gpfsel1: u32) -> UartKind {
    match gpfsel1 >> 12 & 7 {
        0b010 => UartKind::Mini,
        _ => UartKind::Pl011,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_the_pins() {
        // GPIO 14 and 15 by function 5; by function 0; as after reset; neighbours by function 5.
        let kinds = [0x1_2000, 0x2_4000, 0, 0x1_0400].map(at_the_pins);
        let [mini, pl011] = [UartKind::Mini, UartKind::Pl011];
        assert_eq!(kinds, [mini, pl011, pl011, pl011]);
    }
}
