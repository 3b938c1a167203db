//! x86_64, in 64-bit mode: Intel SDM volume 2, chapter 2 (formats) and the pages of each
//! instruction.
use super::{Change, Effect, Gpr, Memory};
use models::Register;

/// MSR number of IA32_EFER.
const EFER: u64 = 0xc000_0080;

/// The parts of an instruction before its operands.
struct Head<'a> {
    lock: bool,
    operand_size: bool,
    rex: u8,
    /// The opcode and what follows.
    rest: &'a [u8],
}

fn head(bytes: &[u8]) -> Option<Head<'_>> {
    let (mut lock, mut operand_size, mut at) = (false, false, 0);
    loop {
        match *bytes.get(at)? {
            0xf0 => lock = true,
            0x66 => operand_size = true,
            0x67 | 0xf2 | 0xf3 | 0x2e | 0x36 | 0x3e | 0x26 | 0x64 | 0x65 => {}
            _ => break,
        }
        at += 1;
    }
    let rex = Some(bytes[at]).filter(|byte| byte & 0xf0 == 0x40);
    Some(Head {
        lock,
        operand_size,
        rex: rex.unwrap_or(0),
        rest: &bytes[at + usize::from(rex.is_some())..],
    })
}

/// Whether it updates memory atomically: LOCK, and XCHG with memory, which needs no LOCK.
pub fn is_atomic(bytes: &[u8]) -> bool {
    head(bytes).is_some_and(|head| {
        head.lock || matches!(*head.rest, [0x86 | 0x87, modrm, ..] if modrm < 0xc0)
    })
}

/// What the instruction at `pc` does to translations.
pub fn effect(bytes: &[u8], pc: u64) -> Option<Effect> {
    let head = head(bytes)?;
    let next = pc.wrapping_add(bytes.len() as u64);
    match *head.rest {
        [0x0f, 0x22, modrm, ..] => {
            let control = match register(modrm >> 3, head.rex >> 2) {
                0 => Register::Cr0,
                3 => Register::Cr3,
                4 => Register::Cr4,
                _ => return None,
            };
            Some(Effect::Register(control, register(modrm, head.rex)))
        }
        [0x0f, 0x30, ..] => Some(Effect::Wrmsr),
        [0x0f, 0x01, modrm, ref rest @ ..] if modrm >> 3 & 7 == 7 && modrm < 0xc0 => {
            Some(Effect::Invlpg(memory(modrm, rest, head.rex, next)?))
        }
        [0x0f, 0x38, 0x82, modrm, ..] if head.operand_size && modrm < 0xc0 => Some(Effect::Invpcid),
        _ => None,
    }
}

/// What WRMSR changes.
pub fn msr(read: impl Fn(Gpr) -> u64) -> Option<Change> {
    let [rax, rcx, rdx] = [0, 1, 2].map(read);
    let value = rdx << 32 | rax & 0xffff_ffff;
    (rcx & 0xffff_ffff == EFER).then_some(Change::Register(Register::Efer, value))
}

/// The register of three bits and the lowest one of `extension`.
fn register(bits: u8, extension: u8) -> u8 {
    bits & 7 | (extension & 1) << 3
}

/// The memory operand behind a ModRM byte.
fn memory(modrm: u8, rest: &[u8], rex: u8, next: u64) -> Option<Memory> {
    let mode = modrm >> 6;
    let mut memory = Memory::default();
    let mut after = rest;
    // A displacement of 32 bits stands in for the base.
    let mut no_base = false;
    if modrm & 7 == 4 {
        let (sib, rest) = rest.split_first()?;
        let index = register(sib >> 3, rex >> 1);
        memory.index = (index != 4).then_some((index, sib >> 6));
        no_base = sib & 7 == 5 && mode == 0;
        memory.base = (!no_base).then_some(register(*sib, rex));
        after = rest;
    } else if modrm & 7 == 5 && mode == 0 {
        no_base = true;
        memory.offset = next;
    } else {
        memory.base = Some(register(modrm, rex));
    }
    let offset = match mode {
        1 => i64::from(*after.first()? as i8),
        0 if !no_base => 0,
        _ => i64::from(i32::from_le_bytes(*after.first_chunk()?)),
    };
    memory.offset = memory.offset.wrapping_add_signed(offset);
    Some(memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn atomics() {
        for (bytes, expected) in [
            (&[0xf0, 0x48, 0x0f, 0xb1, 0x0f][..], true), // lock cmpxchg [rdi], rcx
            (&[0xf0, 0xff, 0x07], true),                 // lock inc dword [rdi]
            (&[0xf0, 0x49, 0x0f, 0xc7, 0x08], true),     // lock cmpxchg16b [r8]
            (&[0x48, 0x87, 0x07], true),                 // xchg [rdi], rax
            (&[0x66, 0x87, 0x07], true),                 // xchg [rdi], ax
            (&[0x48, 0x87, 0xc7], false),                // xchg rdi, rax
            (&[0x48, 0x0f, 0xb1, 0x0f], false),          // cmpxchg [rdi], rcx
            (&[0xff, 0x07], false),                      // inc dword [rdi]
            (&[0x90], false),                            // nop
            (&[], false),
            (&[0x66], false),
        ] {
            assert_eq!(is_atomic(bytes), expected, "{bytes:x?}");
        }
    }

    #[test]
    fn roots() {
        let register = |register, from| Some(Effect::Register(register, from));
        for (bytes, expected) in [
            (&[0x0f, 0x22, 0xd8][..], register(Register::Cr3, 0)), // mov cr3, rax
            (&[0x41, 0x0f, 0x22, 0xdc], register(Register::Cr3, 12)), // mov cr3, r12
            (&[0x0f, 0x22, 0xe1], register(Register::Cr4, 1)),     // mov cr4, rcx
            (&[0x0f, 0x22, 0xc3], register(Register::Cr0, 3)),     // mov cr0, rbx
            (&[0x44, 0x0f, 0x22, 0xc0], None),                     // mov cr8, rax
            (&[0x0f, 0x20, 0xd8], None),                           // mov rax, cr3
            (&[0x0f, 0x30], Some(Effect::Wrmsr)),
            (&[0x0f, 0x32], None), // rdmsr
        ] {
            assert_eq!(effect(bytes, 0), expected, "{bytes:x?}");
        }
    }

    #[test]
    fn flushes_and_their_addresses() {
        let registers = |register: u8| 0x1000 * (1 + u64::from(register));
        let address = |bytes: &[u8]| match effect(bytes, 0x50_0000) {
            Some(Effect::Invlpg(memory)) => memory.address(registers),
            other => panic!("{other:?}"),
        };
        assert_eq!(address(&[0x0f, 0x01, 0x38]), 0x1000); // [rax]
        assert_eq!(address(&[0x41, 0x0f, 0x01, 0x3f]), 0x10000); // [r15]
        assert_eq!(address(&[0x0f, 0x01, 0x7f, 0xf8]), 0x7ff8); // [rdi - 8]
        assert_eq!(address(&[0x0f, 0x01, 0x3c, 0x24]), 0x5000); // [rsp]
        assert_eq!(address(&[0x41, 0x0f, 0x01, 0x7d, 0x00]), 0xe000); // [r13]
        // [rbx + r9*8 + 0x100]
        let bytes = [0x42, 0x0f, 0x01, 0xbc, 0xcb, 0, 1, 0, 0];
        assert_eq!(address(&bytes), 0x4000 + 0xa000 * 8 + 0x100);
        // [rip + 0x10]: the next instruction is 7 bytes on.
        let bytes = [0x0f, 0x01, 0x3d, 0x10, 0, 0, 0];
        assert_eq!(address(&bytes), 0x50_0017);
        // [0xffffffffff000000], absolute
        let bytes = [0x0f, 0x01, 0x3c, 0x25, 0, 0, 0, 0xff];
        assert_eq!(address(&bytes), 0xffff_ffff_ff00_0000);
        assert_eq!(effect(&[0x0f, 0x01, 0xf8], 0), None); // swapgs
        assert_eq!(effect(&[0x0f, 0x01, 0x30], 0), None); // lmsw [rax]
        assert_eq!(effect(&[0x0f, 0x01, 0x3d, 0x10], 0), None); // cut
    }

    #[test]
    fn operands_are_read() {
        let change = |bytes: &[u8], read: &dyn Fn(Gpr) -> u64| effect(bytes, 0)?.change(read);
        let cr3 = change(&[0x41, 0x0f, 0x22, 0xdc], &|from| u64::from(from) << 12);
        assert_eq!(cr3, Some(Change::Register(Register::Cr3, 12 << 12)));
        let msr = |number| move |from: Gpr| [0x7777_0000_0d01, number, 1][usize::from(from)];
        let efer = Change::Register(Register::Efer, 1 << 32 | 0xd01);
        assert_eq!(change(&[0x0f, 0x30], &msr(EFER)), Some(efer));
        assert_eq!(change(&[0x0f, 0x30], &msr(0x10)), None);
        // invpcid r10, [rsi]
        let invpcid = change(&[0x66, 0x44, 0x0f, 0x38, 0x82, 0x16], &|_| 0);
        assert_eq!(invpcid, Some(Change::All));
    }
}
