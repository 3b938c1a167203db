//! What a board has, from its device tree ([`fdt`](super::fdt)) or, on a Raspberry Pi whose firmware passed none, from here.

use super::regs;
use super::serial::Kind;
use arrayvec::ArrayVec;
use mm::addr::{PhysAddr, PhysRange};

/// Which interrupt controller there is, and its register windows.
#[derive(Clone, Copy, Debug)]
pub enum Controller {
    /// GICv2: distributor, CPU interface.
    GicV2(PhysRange, PhysRange),
    /// GICv3: distributor, the first region of redistributors.
    GicV3(PhysRange, PhysRange),
    /// Raspberry Pi 3: at the cores, for peripherals.
    Bcm2836(PhysRange, PhysRange),
}

/// A serial port.
#[derive(Clone, Copy, Debug)]
pub struct Uart {
    /// What drives it.
    pub kind: Kind,
    /// Its registers.
    pub window: PhysRange,
    /// Its interrupt, when it is known.
    pub interrupt: Option<u32>,
}

/// The devices the kernel drives.
#[derive(Clone, Copy, Debug, Default)]
pub struct Devices {
    /// The console.
    pub uart: Option<Uart>,
    /// The interrupt controller.
    pub controller: Option<Controller>,
    /// PL031.
    pub rtc: Option<PhysRange>,
    /// The virtual timer's interrupt, where the controller leaves a choice.
    pub timer: Option<u32>,
    /// PSCI by `smc` (true) or `hvc`.
    pub psci_smc: Option<bool>,
    /// The Raspberry Pi's watchdog.
    pub watchdog: Option<PhysRange>,
    /// The way to the Raspberry Pi's firmware; only used before [`windows`](Self::windows) are mapped for good.
    pub mailbox: Option<PhysRange>,
}

impl Devices {
    /// Their register windows.
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

fn window(start: u64, bytes: u64) -> PhysRange {
    PhysRange::new(PhysAddr(start), PhysAddr(start + bytes))
}

/// MIDR_EL1's part number: Cortex-A53 and A72, by Arm.
const CORTEX_A53: u64 = 0x41_d03;
const CORTEX_A72: u64 = 0x41_d08;

/// The Raspberry Pi with this CPU: its devices, and the RAM that its smallest model leaves to us (for a firmware
/// that does not answer).
pub fn raspberry_pi() -> Option<(Devices, PhysRange)> {
    let midr = regs::read!("midr_el1");
    let uart = |window, interrupt| Uart {
        kind: Kind::Pl011,
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
