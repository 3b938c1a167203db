//! Root registers, and the flushes that writing them implies.

mod common;

use common::{CR4, Memory, ROOT, TCR, X86_GLOBAL, X86_PAGE};
use models::{Access, Control, Flush, Machine, Register, Roots, presets};

const PG: u64 = 1 << 31;
const LME: u64 = 1 << 8;
const PGE: u64 = 1 << 7;
const PCIDE: u64 = 1 << 17;
const KEEP: u64 = 1 << 63;

#[test]
fn x86_64_begins_without_paging() {
    let mut control = Control::default();
    assert_eq!(control.roots(), Roots::Off);
    assert_eq!(control.write(Register::Efer, LME), None);
    control.write(Register::Cr3, ROOT);
    assert_eq!(control.roots(), Roots::Off);
    assert_eq!(control.write(Register::Cr0, PG), None);
    let (cr3, cr4) = (ROOT, 0);
    let efer = LME | 1 << 10;
    assert_eq!(control.roots(), Roots::X86_64 { cr3, cr4, efer });
    // What a guest writes to LMA counts for nothing.
    control.write(Register::Efer, 1 << 10);
    assert_eq!(control.roots(), Roots::X86_64 { cr3, cr4, efer: 0 });
    assert_eq!(control.write(Register::Cr0, 0), Some(Flush::All));
    assert_eq!(control.roots(), Roots::Off);
}

#[test]
fn moves_to_cr3() {
    let mut control = Control::default();
    let moved = |control: &mut Control, bits| control.write(Register::Cr3, ROOT | bits);
    assert_eq!(moved(&mut control, 5), Some(Flush::Tag(0)));
    assert_eq!(moved(&mut control, 5 | KEEP), Some(Flush::Tag(0)));
    control.write(Register::Cr4, PCIDE);
    assert_eq!(moved(&mut control, 5), Some(Flush::Tag(5)));
    assert_eq!(moved(&mut control, 6 | KEEP), None);
}

#[test]
fn changes_of_cr4() {
    let drops = |before, after| {
        let mut control = Control::default();
        control.write(Register::Cr4, before);
        control.write(Register::Cr4, after)
    };
    for bit in [1 << 5, PGE, 1 << 12] {
        assert_eq!([drops(0, bit), drops(bit, 0)], [Some(Flush::All); 2]);
        assert_eq!(drops(bit, bit), None);
    }
    assert_eq!([drops(0, PCIDE), drops(PCIDE, 0)], [None, Some(Flush::All)]);
    let smep = 1 << 20;
    assert_eq!([drops(0, smep), drops(smep, 0)], [Some(Flush::All), None]);
    assert_eq!(drops(0, 1 << 9), None);
}

#[test]
fn aarch64() {
    let mut control = Control::default();
    let (ttbr0, ttbr1, tcr) = (0x1000, 0x2000, TCR);
    for (register, value) in [
        (Register::Ttbr0, ttbr0),
        (Register::Ttbr1, ttbr1),
        (Register::Tcr, tcr),
    ] {
        assert_eq!(control.write(register, value), None);
        assert_eq!(control.roots(), Roots::Off);
    }
    assert_eq!(control.write(Register::Sctlr, 1), None);
    assert_eq!(control.roots(), Roots::Aarch64 { ttbr0, ttbr1, tcr });
    assert_eq!(control.write(Register::Sctlr, 0), None);
    assert_eq!(control.roots(), Roots::Off);
}

/// A machine does with a write what the registers say, on the CPU that writes.
#[test]
fn a_machine() {
    let mut memory = Memory::new(0x20000);
    memory.map_x86(0x1000, 12, 0x8000 | X86_PAGE);
    memory.map_x86(0x2000, 12, 0x9000 | X86_PAGE | X86_GLOBAL);
    let mut machine = Machine::new(presets::ZEN4, 2).expect("real");
    for cpu in 0..2 {
        for (register, value) in [
            (Register::Efer, LME),
            (Register::Cr4, CR4),
            (Register::Cr3, ROOT | 1),
            (Register::Cr0, PG),
        ] {
            machine.write(cpu, register, value);
        }
    }
    let walks = |machine: &mut Machine| {
        machine.reset();
        for cpu in 0..2 {
            machine.access(cpu, Access::read(0x1000, 1), &memory);
            machine.access(cpu, Access::read(0x2000, 1), &memory);
        }
        [0, 1].map(|cpu| machine.figures(cpu).dtlb.walks)
    };
    assert_eq!(walks(&mut machine), [2, 2]);
    machine.write(0, Register::Cr3, ROOT | 2 | KEEP);
    assert_eq!(walks(&mut machine), [1, 0], "another tag");
    machine.write(0, Register::Cr3, ROOT | 1 | KEEP);
    assert_eq!(walks(&mut machine), [0, 0], "kept");
    machine.write(0, Register::Cr3, ROOT | 1);
    let but_global = "dropped, but for the global page";
    assert_eq!(walks(&mut machine), [1, 0], "{but_global}");
    machine.write(1, Register::Cr4, CR4 & !PGE);
    assert_eq!(walks(&mut machine), [0, 2]);
}
