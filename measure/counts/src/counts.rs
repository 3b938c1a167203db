//! Counters of one CPU, by mode. In QEMU they are the entry of a scoreboard, which translated code
//! adds to without a call.
use serde::{Deserialize, Serialize};
use std::ops::Sub;

/// Where an instruction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// In the lower half of the address space.
    User,
    /// In the upper half. The first instructions of a boot, before paging, count as the user's.
    Kernel,
}

impl Mode {
    /// Both, in the order in which they are stored.
    pub const ALL: [Mode; 2] = [Mode::User, Mode::Kernel];

    /// The mode of the instruction at `pc`. Quire and Linux run in the upper half on both machines,
    /// user programs in the lower one (below 2^47 on x86_64, 2^48 on aarch64): the highest bit is
    /// enough.
    pub fn of(pc: u64) -> Mode {
        if pc >> 63 == 0 {
            Mode::User
        } else {
            Mode::Kernel
        }
    }
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// Instructions begun. One that faults counts again when it is repeated.
    Instructions,
    /// Loads done, as the emulator makes them: what it does in two pieces counts twice.
    Loads,
    /// Stores done, likewise. An atomic update is a load and a store; an exclusive store
    /// (aarch64) is a store only.
    Stores,
    /// Atomic updates begun: LOCK and XCHG with memory, LSE atomics, exclusive stores.
    Atomics,
}

impl Counter {
    /// All, in the order in which they are stored.
    pub const ALL: [Counter; 4] = [
        Counter::Instructions,
        Counter::Loads,
        Counter::Stores,
        Counter::Atomics,
    ];
}

/// The counters of one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    user: OfMode,
    kernel: OfMode,
}

/// Those of one mode, in the order of [`Counter::ALL`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct OfMode {
    instructions: u64,
    loads: u64,
    stores: u64,
    atomics: u64,
}

impl Counts {
    /// The size of all in bytes, where each has 8.
    pub const BYTES: usize = size_of::<Counts>();

    /// How far from the beginning one is, in bytes.
    pub fn offset(mode: Mode, counter: Counter) -> usize {
        (mode as usize * 4 + counter as usize) * 8
    }

    /// Those that `read` finds at each offset.
    pub fn read(read: impl Fn(usize) -> u64) -> Counts {
        let mut counts = Counts::default();
        for mode in Mode::ALL {
            for counter in Counter::ALL {
                *counts.of_mut(mode, counter) = read(Counts::offset(mode, counter));
            }
        }
        counts
    }

    /// One of them.
    pub fn of(mut self, mode: Mode, counter: Counter) -> u64 {
        *self.of_mut(mode, counter)
    }

    /// Instructions in both modes.
    pub fn instructions(&self) -> u64 {
        let of = |mode| self.of(mode, Counter::Instructions);
        Mode::ALL.into_iter().map(of).sum()
    }

    /// One of them, to change it.
    pub fn of_mut(&mut self, mode: Mode, counter: Counter) -> &mut u64 {
        let of_mode = match mode {
            Mode::User => &mut self.user,
            Mode::Kernel => &mut self.kernel,
        };
        match counter {
            Counter::Instructions => &mut of_mode.instructions,
            Counter::Loads => &mut of_mode.loads,
            Counter::Stores => &mut of_mode.stores,
            Counter::Atomics => &mut of_mode.atomics,
        }
    }
}

impl Sub for Counts {
    type Output = Counts;

    /// What was counted since `before`.
    fn sub(mut self, before: Counts) -> Counts {
        for mode in Mode::ALL {
            for counter in Counter::ALL {
                let count = self.of_mut(mode, counter);
                *count = count.wrapping_sub(before.of(mode, counter));
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_counter_has_a_place_of_its_own() {
        let counts = Counts::read(|offset| offset as u64);
        assert_eq!(counts.of(Mode::User, Counter::Instructions), 0);
        assert_eq!(counts.of(Mode::Kernel, Counter::Instructions), 32);
        assert_eq!(counts.of(Mode::Kernel, Counter::Atomics), 56);
        assert_eq!(Counts::BYTES, 64);
        assert_eq!(counts - counts, Counts::default());
    }

    #[test]
    fn modes_by_address() {
        assert_eq!(Mode::of(0x40_1000), Mode::User);
        assert_eq!(Mode::of(0xffff_ffff_f000), Mode::User);
        assert_eq!(Mode::of(0xffff_8000_0000_0000), Mode::Kernel);
        assert_eq!(Mode::of(0xffff_ffff_8020_0000), Mode::Kernel);
    }
}
