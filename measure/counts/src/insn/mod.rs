//! Instructions that the plugin treats in a way of their own, by their bytes.
use crate::Arch;
use models::Register;

pub mod aarch64;
pub mod bulk;
pub mod x86_64;

/// How an instruction updates memory atomically.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atomic {
    /// It does not.
    No,
    /// By one instruction that reads and writes.
    Update,
    /// By a store that fails if the line was written since the exclusive load before it. The
    /// emulator compares to find out, which it reports as a load.
    ExclusiveStore,
}

impl Atomic {
    /// What the instruction is.
    pub fn of(arch: Arch, bytes: &[u8]) -> Atomic {
        match arch {
            Arch::X86_64 if x86_64::is_atomic(bytes) => Atomic::Update,
            Arch::X86_64 => Atomic::No,
            Arch::Aarch64 => aarch64::word(bytes).map_or(Atomic::No, aarch64::atomic),
        }
    }
}

/// What an instruction changes of translations, with its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A register that page tables depend on gets a value.
    Register(Register, u64),
    /// The CPU flushes what it has cached under any tag at this address, and its tables (INVLPG).
    Page(u64),
    /// All (INVPCID: no CPU that QEMU emulates has it).
    All,
    /// What a TLBI names, with the value of its register.
    Tlbi(aarch64::Tlbi, u64),
}

/// The number of a general register; [`ZERO`] reads as zero.
pub type Gpr = u8;

/// The name of a general register in gdb.
pub fn gpr_name(arch: Arch, register: Gpr) -> String {
    const X86_64: [&str; 8] = ["rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi"];
    match (arch, X86_64.get(usize::from(register))) {
        (Arch::X86_64, Some(name)) => (*name).to_owned(),
        (Arch::X86_64, None) => format!("r{register}"),
        (Arch::Aarch64, _) => format!("x{register}"),
    }
}

/// aarch64's XZR.
pub const ZERO: Gpr = 31;

/// A memory operand of x86_64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Base register.
    pub base: Option<Gpr>,
    /// Index register, and the power of two that it is multiplied with.
    pub index: Option<(Gpr, u8)>,
    /// Displacement; with the address of the next instruction in it where that is the base.
    pub offset: u64,
}

impl Memory {
    /// The address, from the values of registers. Segments FS and GS are taken to begin at 0.
    pub fn address(&self, read: impl Fn(Gpr) -> u64) -> u64 {
        let base = self.base.map_or(0, &read);
        let index = self.index.map_or(0, |(index, scale)| read(index) << scale);
        base.wrapping_add(index).wrapping_add(self.offset)
    }
}

/// What an instruction does to translations; operands are to be read before it executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A register that page tables depend on gets the value of a general one.
    Register(Register, Gpr),
    /// WRMSR: the number is in RCX, the value in RDX and RAX.
    Wrmsr,
    /// INVLPG.
    Invlpg(Memory),
    /// INVPCID.
    Invpcid,
    /// TLBI.
    Tlbi(aarch64::Tlbi, Gpr),
}

impl Effect {
    /// What the instruction at `pc` does to translations, if anything.
    pub fn of(arch: Arch, bytes: &[u8], pc: u64) -> Option<Effect> {
        match arch {
            Arch::X86_64 => x86_64::effect(bytes, pc),
            Arch::Aarch64 => aarch64::effect(aarch64::word(bytes)?),
        }
    }

    /// What changes, from the values of general registers; nothing that concerns translations for
    /// most model-specific registers.
    pub fn change(&self, read: impl Fn(Gpr) -> u64) -> Option<Change> {
        let read = |register| if register == ZERO { 0 } else { read(register) };
        Some(match *self {
            Effect::Register(register, from) => Change::Register(register, read(from)),
            Effect::Wrmsr => x86_64::msr(read)?,
            Effect::Invlpg(memory) => Change::Page(memory.address(read)),
            Effect::Invpcid => Change::All,
            Effect::Tlbi(tlbi, from) => Change::Tlbi(tlbi, read(from)),
        })
    }
}
