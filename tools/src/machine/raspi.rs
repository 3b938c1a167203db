//! Raspberry Pis in QEMU: the device tree, which their firmware would pass. QEMU brings none; it
//! adds the memory, the command line and the initramfs to the one it is given.
use dtoolkit::model::{DeviceTree, DeviceTreeNode, DeviceTreeProperty};

/// The mini UART's node.
const MINI_UART: &str = "/soc/serial@7e215040";

/// A board that QEMU emulates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Board {
    /// Raspberry Pi 3B.
    Pi3,
    /// Raspberry Pi 4B.
    Pi4,
}

/// The firmware's settings.
#[derive(Clone, Copy, Debug, Default)]
pub struct Chosen {
    /// As without the overlay disable-bt: the PL011 is Bluetooth's, the mini UART `serial0`.
    pub mini_uart: bool,
    /// Where the initramfs' first byte and the one behind its last are, when it is not QEMU that
    /// puts one there.
    pub initramfs: Option<(u32, u32)>,
    /// CPUs that are listed beside the four that there are.
    pub missing_cpus: u32,
}

impl Board {
    /// The board of QEMU's machine of this name.
    pub fn of(machine: &str) -> Option<Board> {
        match machine {
            "raspi3b" => Some(Board::Pi3),
            "raspi4b" => Some(Board::Pi4),
            _ => None,
        }
    }

    /// The only size of memory that QEMU gives it, in MiB.
    pub const fn mebibytes(self) -> u64 {
        match self {
            Board::Pi3 => 1024,
            Board::Pi4 => 2048,
        }
    }

    /// The device tree, as short as the kernel needs it. Addresses as in the boards' own: behind
    /// the bus `soc`, which moves them.
    pub fn device_tree(self, chosen: Chosen) -> Vec<u8> {
        let mut tree = DeviceTree::new();
        let root = &mut tree.root;
        let (compatible, cells) = match self {
            Board::Pi3 => ("raspberrypi,3-model-b\0brcm,bcm2837\0", 1),
            Board::Pi4 => ("raspberrypi,4-model-b\0brcm,bcm2711\0", 2),
        };
        root.add_property(property("compatible", compatible.as_bytes()));
        root.add_property(words("#address-cells", &[cells]));
        root.add_property(words("#size-cells", &[1]));
        let mut properties = vec![];
        if chosen.mini_uart {
            root.add_child(node("aliases", [text("serial0", MINI_UART)]));
        } else {
            properties.push(text("stdout-path", "/soc/serial@7e201000"));
        }
        if let Some((start, end)) = chosen.initramfs {
            properties.push(words("linux,initrd-start", &[start]));
            properties.push(words("linux,initrd-end", &[end]));
        }
        root.add_child(node("chosen", properties));
        root.add_child(cpus(4 + chosen.missing_cpus));
        root.add_child(node("soc", self.bus()));
        let soc = root.child_mut("soc").expect("just added");
        self.devices()
            .into_iter()
            .for_each(|device| soc.add_child(device));
        if chosen.mini_uart {
            let pl011 = soc.child_mut("serial@7e201000").expect("just added");
            pl011.add_child(node("bluetooth", [text("compatible", "brcm,bcm43438-bt")]));
        }
        tree.to_dtb()
    }

    fn bus(self) -> [DeviceTreeProperty; 4] {
        let ranges: &[u32] = match self {
            Board::Pi3 => &[
                0x7e00_0000,
                0x3f00_0000,
                0x0100_0000,
                0x4000_0000,
                0x4000_0000,
                0x1000,
            ],
            Board::Pi4 => &[
                0x7e00_0000,
                0,
                0xfe00_0000,
                0x0180_0000,
                0x4000_0000,
                0,
                0xff80_0000,
                0x0080_0000,
            ],
        };
        [
            text("compatible", "simple-bus"),
            words("#address-cells", &[1]),
            words("#size-cells", &[1]),
            words("ranges", ranges),
        ]
    }

    fn devices(self) -> Vec<DeviceTreeNode> {
        let device = |name, compatible, registers: &[u32], interrupts: &[u32]| {
            let mut all = vec![text("compatible", compatible), words("reg", registers)];
            if !interrupts.is_empty() {
                all.push(words("interrupts", interrupts));
            }
            node(name, all)
        };
        let serial = |interrupts| {
            device(
                "serial@7e201000",
                "arm,pl011",
                &[0x7e20_1000, 0x200],
                interrupts,
            )
        };
        let mut devices = vec![
            device(
                "watchdog@7e100000",
                "brcm,bcm2835-pm",
                &[0x7e10_0000, 0x114],
                &[],
            ),
            device(
                "mailbox@7e00b880",
                "brcm,bcm2835-mbox",
                &[0x7e00_b880, 0x40],
                &[],
            ),
        ];
        let mini_uart = |interrupts| {
            device(
                "serial@7e215040",
                "brcm,bcm2835-aux-uart",
                &[0x7e21_5040, 0x40],
                interrupts,
            )
        };
        devices.extend(match self {
            Board::Pi3 => [
                serial(&[2, 25]),
                mini_uart(&[1, 29]),
                device(
                    "interrupt-controller@7e00b200",
                    "brcm,bcm2836-armctrl-ic",
                    &[0x7e00_b200, 0x200],
                    &[],
                ),
                device(
                    "interrupt-controller@40000000",
                    "brcm,bcm2836-l1-intc",
                    &[0x4000_0000, 0x100],
                    &[],
                ),
            ],
            Board::Pi4 => [
                serial(&[0, 121, 4]),
                mini_uart(&[0, 93, 4]),
                device(
                    "interrupt-controller@40041000",
                    "arm,gic-400",
                    &[0x4004_1000, 0x1000, 0x4004_2000, 0x2000],
                    &[],
                ),
                device(
                    "timer",
                    "arm,armv8-timer",
                    &[],
                    &[1, 13, 8, 1, 14, 8, 1, 11, 8, 1, 10, 8],
                ),
            ],
        });
        devices
    }
}

/// The CPUs, which wait for an entry point where the firmware's stub looks for one.
fn cpus(count: u32) -> DeviceTreeNode {
    let cells = [words("#address-cells", &[1]), words("#size-cells", &[0])];
    let mut all = node("cpus", cells);
    for cpu in 0..count {
        let properties = [
            text("device_type", "cpu"),
            words("reg", &[cpu]),
            text("enable-method", "spin-table"),
            words("cpu-release-addr", &[0, 0xd8 + 8 * cpu]),
        ];
        all.add_child(node(&format!("cpu@{cpu}"), properties));
    }
    all
}

fn property(name: &str, value: &[u8]) -> DeviceTreeProperty {
    DeviceTreeProperty::new(name, value).expect("names here are sound")
}

fn text(name: &str, value: &str) -> DeviceTreeProperty {
    DeviceTreeProperty::new(name, value).expect("names here are sound")
}

fn words(name: &str, value: &[u32]) -> DeviceTreeProperty {
    let bytes: Vec<u8> = value.iter().flat_map(|word| word.to_be_bytes()).collect();
    property(name, &bytes)
}

fn node(name: &str, properties: impl IntoIterator<Item = DeviceTreeProperty>) -> DeviceTreeNode {
    let mut node = DeviceTreeNode::new(name).expect("names here are sound");
    properties
        .into_iter()
        .for_each(|property| node.add_property(property));
    node
}

#[cfg(test)]
mod tests {
    use super::*;
    use dtoolkit::fdt::Fdt;

    #[test]
    fn trees_can_be_read() {
        for (board, mini_uart) in [(Board::Pi3, false), (Board::Pi4, false), (Board::Pi4, true)] {
            let bytes = board.device_tree(Chosen {
                mini_uart,
                initramfs: Some((1, 2)),
                missing_cpus: 1,
            });
            let tree = Fdt::new(&bytes).unwrap();
            for path in ["/chosen", "/cpus/cpu@4", "/soc/serial@7e201000", MINI_UART] {
                assert!(tree.find_node(path).is_some(), "{path} of {board:?}");
            }
            assert_eq!(tree.find_node("/aliases").is_some(), mini_uart);
        }
    }
}
