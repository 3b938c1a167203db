//! Known sequences, with counts that follow from arithmetic.

mod common;

use common::{Memory, SMALL, one};
use models::config::{CacheShape, Fill};
use models::{Access, Figures, Machine, Preset, Roots, presets};

/// Reads `lines` lines, `stride` lines apart, `rounds` times over.
fn stride(machine: &mut Machine, lines: u64, stride: u64, rounds: u64) -> Figures {
    let ram = Memory::new(0x3000);
    machine.reset();
    for _ in 0..rounds {
        for line in 0..lines {
            machine.access(0, Access::read(line * stride * 64, 8), &ram);
        }
    }
    machine.figures(0)
}

/// A cyclic pass over what just fits misses once per line; over one line more per set, LRU misses
/// each time.
#[test]
fn what_just_fits_and_what_does_not() {
    for preset in presets::ALL {
        let (name, lines) = (preset.name, preset.l1d.bytes / 64);
        let mut machine = one(*preset, Roots::Off);
        let fits = stride(&mut machine, lines, 1, 10).data;
        assert_eq!((fits.l1, fits.memory), (lines * 9, lines), "{name}");
        let mut machine = one(*preset, Roots::Off);
        let sets = lines / u64::from(preset.l1d.ways);
        let over = stride(&mut machine, lines + sets, 1, 10).data;
        assert_eq!((over.l1, over.all()), (0, (lines + sets) * 10), "{name}");
        assert_eq!(over.memory, lines + sets);
    }
}

/// Lines of one set: as many as there are ways fit, one more does not.
#[test]
fn a_stride_that_hits_one_set() {
    let preset = presets::CORTEX_A76;
    let (sets, ways) = (256, 4);
    let mut machine = one(preset, Roots::Off);
    assert_eq!(stride(&mut machine, ways, sets, 5).data.l1, ways * 4);
    let mut machine = one(preset, Roots::Off);
    assert_eq!(stride(&mut machine, ways + 1, sets, 5).data.l1, 0);
}

/// A last level of victims adds to the second level; one that is filled by misses contains it.
#[test]
fn victims_add_to_the_second_level() {
    let one_set = |ways: u32| CacheShape::new(u64::from(ways) * 64, ways);
    for (fill, memory) in [(Fill::Victims, 0), (Fill::Misses, 12)] {
        let preset = Preset {
            l1d: one_set(1),
            l2: Some(one_set(4)),
            last: one_set(8),
            fill,
            ..SMALL
        };
        let mut machine = one(preset, Roots::Off);
        stride(&mut machine, 12, 1, 1);
        let again = stride(&mut machine, 12, 1, 1).data;
        assert_eq!(again.memory, memory, "{fill:?}");
    }
}

/// Two CPUs that write one line in turn hand it over each time; each on a line of its own never.
#[test]
fn a_line_that_two_cpus_write() {
    let ram = Memory::new(0x3000);
    let mut machine = Machine::new(presets::CORTEX_A76, 2).expect("real");
    let in_turn = |machine: &mut Machine, address: u64, apart: u64| {
        for turn in 0..100 {
            let address = address + turn as u64 % 2 * apart;
            machine.access(turn % 2, Access::write(address, 8), &ram);
        }
    };
    in_turn(&mut machine, 0x1000, 8);
    for cpu in 0..2 {
        let figures = machine.figures(cpu);
        let (data, first) = (figures.data, u64::from(cpu == 0));
        assert_eq!((data.remote, data.memory), (50 - first, first));
        assert_eq!(figures.events.invalidations, 50 - first);
    }
    machine.reset();
    in_turn(&mut machine, 0x2000, 64);
    assert_eq!([0, 1].map(|cpu| machine.figures(cpu).data.remote), [0, 0]);
}

/// Readers of a modified line: the first takes it from its writer, who then has it clean; a write
/// takes it from all.
#[test]
fn a_line_that_is_read_by_others() {
    let ram = Memory::new(0x3000);
    let mut machine = Machine::new(presets::CORTEX_A76, 3).expect("real");
    machine.access(0, Access::write(0x1000, 8), &ram);
    machine.access(1, Access::read(0x1000, 8), &ram);
    machine.access(2, Access::read(0x1000, 8), &ram);
    machine.access(0, Access::read(0x1000, 8), &ram);
    assert_eq!(machine.figures(1).data.remote, 1);
    let figures = machine.figures(2);
    assert_eq!((figures.data.remote, figures.data.last), (0, 1));
    let figures = machine.figures(0);
    assert_eq!((figures.data.l1, figures.events.invalidations), (1, 0));
    machine.access(0, Access::write(0x1000, 8), &ram);
    machine.access(0, Access::write(0x1000, 8), &ram);
    assert_eq!(machine.figures(0).events.invalidations, 1);
    machine.access(2, Access::read(0x1000, 8), &ram);
    assert_eq!(machine.figures(2).data.remote, 1);
}

/// Lines and pages that an access touches.
#[test]
fn accesses_that_cross() {
    let ram = Memory::new(0x3000);
    for (address, bytes, lines) in [
        (0x1000, 1, 1),
        (0x1038, 8, 1),
        (0x1039, 8, 2),
        (0x1001, 64, 2),
        (0x1000, 256, 4),
        (0x1ffc, 8, 2),
        (0x1fc0, 128, 2),
    ] {
        let mut machine = one(SMALL, Roots::Off);
        machine.access(0, Access::read(address, bytes), &ram);
        assert_eq!(machine.figures(0).data.all(), lines, "{address:#x} {bytes}");
    }
}

/// Fetches have a cache of their own, and share those below.
#[test]
fn fetches() {
    let ram = Memory::new(0x3000);
    let mut machine = one(SMALL, Roots::Off);
    machine.fetch(0, Access::read(0x1000, 4), &ram);
    machine.fetch(0, Access::read(0x1004, 4), &ram);
    machine.access(0, Access::read(0x1008, 4), &ram);
    let figures = machine.figures(0);
    assert_eq!((figures.fetch.memory, figures.fetch.l1), (1, 1));
    assert_eq!((figures.data.l2, figures.data.all()), (1, 1));
}

/// A device is translated, and not cached.
#[test]
fn devices() {
    let mut ram = Memory::new(0x10000);
    ram.map_x86(0x4000, 12, 0x9000_0000 | common::X86_PAGE);
    let mut machine = one(SMALL, common::x86(0));
    let device = Access {
        device: true,
        ..Access::write(0x4000, 4)
    };
    machine.access(0, device, &ram);
    let figures = machine.figures(0);
    assert_eq!((figures.data.all(), figures.dtlb.walks), (0, 1));
}
