//! Instructions of aarch64 that write or copy more than a register, whose accesses QEMU does not
//! report: DC ZVA, and those for memory copy and set (FEAT_MOPS). Arm ARM (DDI 0487), C5.3 and
//! C6.2.
use super::{Gpr, ZERO};

/// Such an instruction, with the registers that say where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bulk {
    /// DC ZVA: zeroes the block around an address.
    Zero(Gpr),
    /// SETP, the first of three that set memory together.
    Set {
        /// Where.
        to: Gpr,
        /// How many bytes.
        bytes: Gpr,
    },
    /// CPYP and CPYFP, likewise.
    Copy {
        /// Where to.
        to: Gpr,
        /// Where from.
        from: Gpr,
        /// How many bytes.
        bytes: Gpr,
    },
}

/// A run of memory that is read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first address.
    pub address: u64,
    /// How many bytes.
    pub bytes: u64,
    /// Whether it is written.
    pub write: bool,
}

impl Bulk {
    /// What the instruction is.
    pub fn of(word: u32) -> Option<Bulk> {
        let register = |at: u32| (word >> at & 0x1f) as Gpr;
        let (to, bytes, from) = (register(0), register(5), register(16));
        if word & 0xffff_ffe0 == 0xd50b_7420 {
            return Some(Bulk::Zero(to));
        }
        match word & 0xffe0_0c00 {
            0x19c0_0400 if word & 0xc000 == 0 => Some(Bulk::Set { to, bytes }),
            0x1900_0400 | 0x1d00_0400 => Some(Bulk::Copy { to, from, bytes }),
            _ => None,
        }
    }

    /// What it touches, from the values of registers before it executes; `block` is what DC ZVA
    /// zeroes.
    pub fn runs(&self, read: impl Fn(Gpr) -> u64, block: &mut Block) -> Vec<Run> {
        let read = |register| if register == ZERO { 0 } else { read(register) };
        let run = |address, bytes, write| Run {
            address,
            bytes,
            write,
        };
        match *self {
            Bulk::Zero(at) => {
                let bytes = block.seen(read(at));
                vec![run(read(at) & !(bytes - 1), bytes, true)]
            }
            Bulk::Set { to, bytes } => vec![run(read(to), read(bytes), true)],
            Bulk::Copy { to, from, bytes } => {
                let bytes = read(bytes);
                vec![run(read(from), bytes, false), run(read(to), bytes, true)]
            }
        }
    }
}

impl Run {
    /// The same in pieces that each lie in one page of 4 KiB.
    pub fn pages(self) -> impl Iterator<Item = Run> {
        let mut rest = self;
        std::iter::from_fn(move || {
            let bytes = rest.bytes.min(4096 - rest.address % 4096);
            let piece = Run { bytes, ..rest };
            rest.address = rest.address.wrapping_add(bytes);
            rest.bytes -= bytes;
            (bytes > 0).then_some(piece)
        })
    }
}

/// How many bytes DC ZVA zeroes, found out by how far from each other its addresses are: DCZID_EL0
/// is no register that gdb knows. Kernels zero whole pages in a row when they boot.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    last: u64,
    bytes: u64,
}

impl Default for Block {
    fn default() -> Block {
        Block {
            last: 0,
            bytes: 2048,
        }
    }
}

impl Block {
    /// An address of DC ZVA: what one of them zeroes, as far as is known. At most 2 KiB.
    pub fn seen(&mut self, address: u64) -> u64 {
        let distance = address.wrapping_sub(self.last);
        self.last = address;
        if distance.is_power_of_two() && (16..self.bytes).contains(&distance) {
            self.bytes = distance;
        }
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings() {
        assert_eq!(Bulk::of(0xd50b_7423), Some(Bulk::Zero(3))); // dc zva, x3
        assert_eq!(Bulk::of(0x19c2_0420), Some(Bulk::Set { to: 0, bytes: 1 })); // setp [x0]!, x1!, x2
        let copy = Some(Bulk::Copy {
            to: 0,
            from: 1,
            bytes: 2,
        });
        assert_eq!(Bulk::of(0x1d01_0440), copy); // cpyp [x0]!, [x1]!, x2!
        assert_eq!(Bulk::of(0x1901_0440), copy); // cpyfp [x0]!, [x1]!, x2!
        assert_eq!(Bulk::of(0x19c2_4420), None); // setm [x0]!, x1!, x2
        assert_eq!(Bulk::of(0x1d41_0440), None); // cpym [x0]!, [x1]!, x2!
        assert_eq!(Bulk::of(0xd50b_7a23), None); // dc cvac, x3
    }

    #[test]
    fn what_is_touched() {
        let mut block = Block::default();
        let read = |register: Gpr| [0x1010, 0x5fc0, 0x80][usize::from(register)];
        let set = Bulk::Set { to: 1, bytes: 2 }.runs(read, &mut block);
        let pieces: Vec<(u64, u64)> = (set[0].pages())
            .map(|run| (run.address, run.bytes))
            .collect();
        assert_eq!(pieces, [(0x5fc0, 0x40), (0x6000, 0x40)]);
        let copy = Bulk::Copy {
            to: 0,
            from: 1,
            bytes: 2,
        };
        let writes: Vec<_> = (copy.runs(read, &mut block).iter())
            .map(|run| (run.address, run.write))
            .collect();
        assert_eq!(writes, [(0x5fc0, false), (0x1010, true)]);
        block.bytes = 64;
        let zero = Bulk::Zero(0).runs(read, &mut block);
        assert_eq!((zero[0].address, zero[0].bytes), (0x1000, 64));
    }

    #[test]
    fn the_block_is_the_least_distance() {
        let mut block = Block::default();
        assert_eq!(block.seen(0x1000), 2048);
        assert_eq!(block.seen(0x1040), 64);
        assert_eq!(block.seen(0x1240), 64);
    }
}
