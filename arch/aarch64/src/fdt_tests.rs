//! Device trees: well-formed, truncated and damaged.
extern crate std;
use super::*;
use dtoolkit::model::{DeviceTree, DeviceTreeNode, DeviceTreeProperty};
use std::vec::Vec;

fn words(name: &str, words: &[u32]) -> DeviceTreeProperty {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    DeviceTreeProperty::new(name, bytes).unwrap()
}

fn text(name: &str, text: &str) -> DeviceTreeProperty {
    DeviceTreeProperty::new(name, text).unwrap()
}

fn node(name: &str, properties: Vec<DeviceTreeProperty>) -> DeviceTreeNode {
    let mut node = DeviceTreeNode::new(name).unwrap();
    properties.into_iter().for_each(|p| node.add_property(p));
    node
}

fn cells() -> Vec<DeviceTreeProperty> {
    std::vec![words("#address-cells", &[1]), words("#size-cells", &[1])]
}

/// As a Raspberry Pi 3's: `chosen` and `aliases` as given, the PL011 with Bluetooth behind it if
/// `bluetooth`.
fn tree(chosen: &[(&str, &str)], aliases: &[(&str, &str)], bluetooth: bool) -> Vec<u8> {
    let texts = |pairs: &[(&str, &str)]| pairs.iter().map(|(n, t)| text(n, t)).collect();
    let mut tree = DeviceTree::new();
    let root = &mut tree.root;
    cells().into_iter().for_each(|p| root.add_property(p));
    let mut said = node("chosen", texts(chosen));
    said.add_property(words("linux,initrd-start", &[0x80_0000]));
    said.add_property(words("linux,initrd-end", &[0x90_0000]));
    root.add_child(said);
    root.add_child(node("aliases", texts(aliases)));
    root.add_child(node(
        "memory@0",
        std::vec![words("reg", &[0, 0x1000_0000, 0x2000_0000, 0x1000_0000])],
    ));
    let mut kept = node("reserved-memory", cells());
    kept.add_child(node(
        "a@100000",
        std::vec![words("reg", &[0x10_0000, 0x1800])],
    ));
    let hole = std::vec![words("reg", &[0x20_0000, 0x1000]), text("no-map", "")];
    kept.add_child(node("b@200000", hole));
    root.add_child(kept);
    let mut bus = node("soc", cells());
    bus.add_property(words("ranges", &[0x7e00_0000, 0x3f00_0000, 0x0100_0000]));
    let device = |name, compatible, registers: &[u32], interrupts: &[u32]| {
        let all = [text("compatible", compatible), words("reg", registers)];
        node(
            name,
            Vec::from_iter(all.into_iter().chain([words("interrupts", interrupts)])),
        )
    };
    let mut pl011 = device(
        "serial@7e201000",
        "arm,pl011",
        &[0x7e20_1000, 0x200],
        &[2, 25],
    );
    if bluetooth {
        pl011.add_child(node("bluetooth", Vec::new()));
    }
    bus.add_child(pl011);
    let aux = "brcm,bcm2835-aux-uart";
    bus.add_child(device(
        "serial@7e215040",
        aux,
        &[0x7e21_5040, 0x40],
        &[1, 29],
    ));
    bus.add_child(device(
        "mailbox@7e00b880",
        "brcm,bcm2835-mbox",
        &[0x7e00_b880, 0x40],
        &[],
    ));
    root.add_child(bus);
    tree.to_dtb()
}

fn shown(ranges: &Ranges) -> Vec<(u64, u64)> {
    ranges.iter().map(|r| (r.start.0, r.end.0)).collect()
}

/// Reads everything that the kernel reads.
fn read(tree: Fdt<'_>) -> Devices {
    let (_, reserved) = memory(tree);
    assert!(reserved.remaining_capacity() >= 8);
    if let Some(initramfs) = initramfs(tree) {
        assert!(initramfs.end.0 <= REACH);
    }
    let _ = command_line(tree).len();
    for cpu in cpus(tree) {
        assert!(!matches!(cpu.start, Start::Spin(at) if at.0 >= REACH));
    }
    let devices = devices(tree);
    assert!(devices.windows().iter().all(|w| w.start < w.end));
    devices
}

#[test]
fn memory_and_devices() {
    let bytes = tree(&[("bootargs", "quiet")], &[], false);
    let fdt = parse(&bytes).unwrap();
    let (ram, reserved) = memory(fdt);
    let gaps = [
        (0, 0x20_0000),
        (0x20_1000, 0x1000_0000),
        (0x2000_0000, 0x3000_0000),
    ];
    assert_eq!(shown(&ram), gaps);
    assert_eq!(shown(&reserved), [(0x10_0000, 0x10_2000)]);
    assert_eq!(command_line(fdt), "quiet");
    let found = initramfs(fdt).unwrap();
    assert_eq!((found.start.0, found.end.0), (0x80_0000, 0x90_0000));
    assert_eq!(devices(fdt).mailbox.unwrap().start.0, 0x3f00_b880);
}

/// A tree with these CPUs: `reg`, `status`, `enable-method`, `cpu-release-addr`.
fn with_cpus(all: &[(&[u32], &str, &str, &[u32])]) -> Vec<u8> {
    let mut tree = DeviceTree::new();
    let mut parent = node("cpus", cells());
    for (i, (reg, status, method, release)) in all.iter().enumerate() {
        let mut cpu = node(&std::format!("cpu@{i}"), std::vec![words("reg", reg)]);
        cpu.add_property(text("device_type", "cpu"));
        cpu.add_property(text("status", status));
        cpu.add_property(text("enable-method", method));
        cpu.add_property(words("cpu-release-addr", release));
        parent.add_child(cpu);
    }
    parent.add_child(node("cpu-map", Vec::new()));
    tree.root.add_child(parent);
    tree.to_dtb()
}

#[test]
fn cpus_and_how_they_start() {
    let bytes = with_cpus(&[
        (&[0], "okay", "spin-table", &[0, 0xd8]),
        (&[1], "disabled", "spin-table", &[0xe0]),
        (&[2], "fail", "psci", &[]),
        (&[1, 3], "okay", "psci", &[]),
        // The first again; an address that is out of reach; an unknown method.
        (&[0], "okay", "psci", &[]),
        (&[4], "okay", "spin-table", &[0x8000_0000, 0]),
        (&[5], "okay", "magic", &[]),
    ]);
    let found = cpus(parse(&bytes).unwrap());
    let found: Vec<_> = found.iter().map(|cpu| (cpu.id, cpu.start)).collect();
    let spin = |at| Start::Spin(PhysAddr(at));
    let expected = [
        (0, spin(0xd8)),
        (1, spin(0xe0)),
        (1 << 32 | 3, Start::Psci),
        (4, Start::Unknown),
        (5, Start::Unknown),
    ];
    assert_eq!(found, expected);
    assert!(cpus(parse(&tree(&[], &[], false)).unwrap()).is_empty());
}

#[test]
fn more_cpus_than_are_listed() {
    let ids: Vec<[u32; 1]> = (0..200).map(|id| [id]).collect();
    let all: Vec<(&[u32], &str, &str, &[u32])> = ids
        .iter()
        .map(|id| (&id[..], "okay", "psci", &[][..]))
        .collect();
    assert_eq!(cpus(parse(&with_cpus(&all)).unwrap()).len(), 128);
}

#[test]
fn which_port_is_the_console() {
    let port = |chosen: &[_], aliases: &[_], bluetooth| {
        let bytes = tree(chosen, aliases, bluetooth);
        let uart = devices(parse(&bytes).unwrap()).uart.unwrap();
        (uart.kind, uart.window.start.0, uart.interrupt)
    };
    let pl011 = (UartKind::Pl011, 0x3f20_1000, Some(2 * 32 + 25));
    let mini = (UartKind::Mini, 0x3f21_5040, Some(32 + 29));
    let (big, small) = ("/soc/serial@7e201000", "/soc/serial@7e215040");
    assert_eq!(port(&[], &[], false), pl011);
    assert_eq!(port(&[], &[], true), mini);
    assert_eq!(port(&[("stdout-path", small)], &[], false), mini);
    assert_eq!(
        port(&[("stdout-path", big)], &[("serial0", small)], true),
        pl011
    );
    assert_eq!(
        port(&[], &[("serial0", small), ("serial1", big)], false),
        mini
    );
    let by_alias = [("stdout-path", "serial1:115200n8")];
    assert_eq!(
        port(&by_alias, &[("serial0", big), ("serial1", small)], false),
        mini
    );
    assert_eq!(port(&[("stdout-path", "nowhere")], &[], false), pl011);
}

#[test]
fn every_cut_tree_is_refused() {
    let bytes = tree(
        &[("stdout-path", "serial0")],
        &[("serial0", "/soc/serial@7e215040")],
        true,
    );
    assert!(parse(&bytes).is_some());
    for length in 0..bytes.len() {
        assert!(
            parse(&bytes[..length]).is_none(),
            "{length} of {}",
            bytes.len()
        );
        // With the truncated size in the header; and with zeros in place of the lost bytes.
        let mut cut = bytes[..length].to_vec();
        if length >= 8 {
            cut[4..8].copy_from_slice(&(length as u32).to_be_bytes());
            assert!(
                parse(&cut).is_none_or(|tree| read(tree) == Devices::default()),
                "{length}"
            );
        }
        cut.truncate(length);
        cut[4.min(length)..8.min(length)].copy_from_slice(&bytes[4.min(length)..8.min(length)]);
        cut.resize(bytes.len(), 0);
        parse(&cut).map(read);
    }
}

#[test]
fn no_damaged_byte_is_fatal() {
    let bytes = tree(
        &[("stdout-path", "serial0")],
        &[("serial0", "/soc/serial@7e215040")],
        true,
    );
    let mut readable = 0;
    for at in 0..bytes.len() {
        for value in [
            0,
            1,
            2,
            3,
            4,
            9,
            0x2f,
            0x40,
            0x7f,
            0x80,
            0xff,
            bytes[at] ^ 0x20,
        ] {
            let mut damaged = bytes.clone();
            damaged[at] = value;
            readable += usize::from(parse(&damaged).map(read).is_some());
        }
    }
    assert!(readable > bytes.len());
}

#[test]
fn more_reservations_than_there_is_room_for_are_no_ram() {
    let mut tree = DeviceTree::new();
    cells().into_iter().for_each(|p| tree.root.add_property(p));
    let reg = words("reg", &[0, 0x1000_0000]);
    tree.root.add_child(node("memory@0", std::vec![reg]));
    let mut kept = node("reserved-memory", cells());
    let places: Vec<u32> = (0..80).map(|n| 0x10_0000 + n * 0x10_0000).collect();
    for at in &places {
        let reg = words("reg", &[*at, 0x1000]);
        kept.add_child(node(&std::format!("r@{at:x}"), std::vec![reg]));
    }
    tree.root.add_child(kept);
    let bytes = tree.to_dtb();
    let (ram, reserved) = memory(parse(&bytes).unwrap());
    let inside = |list: &Ranges, at: u64| list.iter().any(|r| r.start.0 <= at && at < r.end.0);
    for at in places.into_iter().map(u64::from) {
        assert!(inside(&reserved, at) || !inside(&ram, at), "{at:#x}");
    }
    assert!(inside(&ram, 0x50_1000));
}
