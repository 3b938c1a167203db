//! CPUs that take turns on one thread: which of them executes a block of translated code.
//!
//! QEMU 10.0 writes the number of the CPU that translates a block into its code when all CPUs are
//! on one thread, though the others execute that code, too. What tells CPUs apart is a register in
//! which a kernel keeps the address of what belongs to one CPU. Which address is whose shows when a
//! block is executed for the first time: the CPU that had it translated does that at once.
use crate::Arch;
use rustc_hash::FxHashMap;

/// The registers that tell CPUs apart, by their names in gdb. The first of them that is an address
/// of the kernel counts: on x86_64 the other one is the program's.
pub fn registers(arch: Arch) -> &'static [&'static str] {
    match arch {
        Arch::X86_64 => &["gs_base", "k_gs_base"],
        Arch::Aarch64 => &["TPIDR_EL1"],
    }
}

/// What is known of the CPUs so far.
#[derive(Debug, Default)]
pub struct Turns {
    blocks: u64,
    /// The block that was translated last, until another one is executed.
    fresh: Option<u64>,
    /// Of which CPU a register's value is.
    known: FxHashMap<u64, usize>,
}

impl Turns {
    /// A block is translated: its number.
    pub fn translated(&mut self) -> u64 {
        self.blocks += 1;
        self.fresh = Some(self.blocks);
        self.blocks
    }

    /// A block is executed, in whose code `cpu` was written: the CPU that executes it. `values` are
    /// those of [`registers`]; before the kernel has set them, it is as in the code.
    pub fn executed(
        &mut self,
        block: u64,
        cpu: usize,
        values: impl IntoIterator<Item = u64>,
    ) -> usize {
        let is_fresh = self.fresh.take() == Some(block);
        let mut values = values.into_iter();
        let Some(value) = values.find(|value| value >> 63 == 1) else {
            return cpu;
        };
        if is_fresh {
            self.known.insert(value, cpu);
        }
        self.known.get(&value).copied().unwrap_or(cpu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PER_CPU: [u64; 2] = [0xffff_8000_0000_1000, 0xffff_8000_0000_2000];

    #[test]
    fn a_block_belongs_to_whoever_executes_it() {
        let mut turns = Turns::default();
        let first = turns.translated();
        assert_eq!(turns.executed(first, 0, [PER_CPU[0]]), 0);
        let second = turns.translated();
        assert_eq!(turns.executed(second, 1, [PER_CPU[1]]), 1);
        assert_eq!(turns.executed(first, 0, [PER_CPU[1]]), 1);
        assert_eq!(turns.executed(second, 1, [PER_CPU[0]]), 0);
    }

    #[test]
    fn in_a_program_the_second_register_counts() {
        let mut turns = Turns::default();
        let block = turns.translated();
        assert_eq!(turns.executed(block, 1, [0x7fff_0000, PER_CPU[1]]), 1);
        assert_eq!(turns.executed(block, 0, [0, PER_CPU[1]]), 1);
    }

    #[test]
    fn another_cpu_may_come_between() {
        let mut turns = Turns::default();
        let old = turns.translated();
        turns.executed(old, 0, [PER_CPU[0]]);
        let new = turns.translated();
        // Not the block that was translated: nothing is learnt, from the next one neither.
        turns.executed(old, 0, [PER_CPU[1]]);
        assert_eq!(turns.executed(new, 0, [PER_CPU[1]]), 0);
        let new = turns.translated();
        assert_eq!(turns.executed(new, 1, [PER_CPU[1]]), 1);
        assert_eq!(turns.executed(old, 0, [PER_CPU[1]]), 1);
    }

    #[test]
    fn before_the_kernel_has_set_it() {
        let mut turns = Turns::default();
        let block = turns.translated();
        assert_eq!(turns.executed(block, 1, [0, 0]), 1);
        assert_eq!(turns.executed(block, 0, [0, 0]), 0);
    }
}
