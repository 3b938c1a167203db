//! The devices of the Raspberry Pi boards, for firmware that passes no device tree.

use super::mmio::Mmio;
use super::{early, regs};
use crate::board::{self, Controller, Devices, Uart, UartKind};
use arch_boot::cpus::{Cpu, Cpus, Start};
use arch_boot::memory;
use mm::addr::{PhysAddr, PhysRange};

fn window(start: u64, bytes: u64) -> PhysRange {
    PhysRange::new(PhysAddr(start), PhysAddr(start + bytes))
}

/// MIDR_EL1's part number: Cortex-A53 and A72, by Arm.
const CORTEX_A53: u64 = 0x41_d03;
const CORTEX_A72: u64 = 0x41_d08;

/// The Raspberry Pi with this CPU: its devices, and the RAM that its smallest model leaves to the
/// ARM (for firmware that does not answer).
pub fn raspberry_pi() -> Option<(Devices, PhysRange)> {
    let midr = regs::read!("midr_el1");
    let uart = |window, interrupt| Uart {
        kind: UartKind::Pl011,
        window,
        interrupt: Some(interrupt),
    };
    match midr >> 24 << 12 | midr >> 4 & 0xfff {
        // BCM2837: Pi 3, Zero 2 W (512 MiB, less 64 for the GPU and a little more).
        CORTEX_A53 => Some((
            Devices {
                uart: Some(uart(window(0x3f20_1000, 0x200), 2 * 32 + 25)),
                controller: Some(Controller::Bcm2836(
                    window(0x4000_0000, 0x1000),
                    window(0x3f00_b200, 0x200),
                )),
                watchdog: Some(window(0x3f10_0000, 0x1000)),
                mailbox: Some(window(0x3f00_b880, 0x40)),
                ..Devices::default()
            },
            window(0, 448 << 20),
        )),
        // BCM2711: Pi 4 with at least 1 GiB.
        CORTEX_A72 => Some((
            Devices {
                uart: Some(uart(window(0xfe20_1000, 0x200), 32 + 121)),
                controller: Some(Controller::GicV2(
                    window(0xff84_1000, 0x1000),
                    window(0xff84_2000, 0x2000),
                )),
                watchdog: Some(window(0xfe10_0000, 0x1000)),
                mailbox: Some(window(0xfe00_b880, 0x40)),
                ..Devices::default()
            },
            window(0, 0x3b40_0000),
        )),
        _ => None,
    }
}

/// The devices with the console that the firmware has put at the header's pins: with Bluetooth on,
/// that is the mini UART.
pub fn console_at_the_pins(mut devices: Devices) -> Devices {
    let (Some(uart), Some(controller)) = (&mut devices.uart, devices.controller) else {
        return devices;
    };
    let gpio = window(uart.window.start.0 - 0x1000, 0x100);
    early::map(memory::whole_pages_around(gpio), true);
    if board::at_the_pins(Mmio::new(gpio.start.0).read(board::GPFSEL1)) == UartKind::Mini {
        *uart = Uart {
            kind: UartKind::Mini,
            window: window(gpio.start.0 + 0x1_5040, 0x40),
            interrupt: Some(match controller {
                Controller::Bcm2836(..) => 32 + 29,
                _ => 32 + 93,
            }),
        };
    }
    devices
}

/// The four CPUs of a Raspberry Pi 3 or 4: all but the first wait in the firmware's stub for an
/// entry point.
pub fn cpus() -> Cpus {
    let cpu = |id| Cpu {
        id,
        start: Start::Spin(PhysAddr(0xd8 + 8 * id)),
    };
    (0..4).map(cpu).collect()
}
