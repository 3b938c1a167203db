//! Address-space layout randomisation: Linux's places for stack, mappings, program and heap, each
//! moved by a random number of pages.

use mm::addr::PAGE_SIZE;

/// Places for one program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offsets {
    /// One past the stack.
    pub stack_top: u64,
    /// Mappings go downwards from here.
    pub mmap_top: u64,
    /// A position-independent program goes here or above.
    pub base: u64,
    /// Bytes between the program's end and its heap.
    pub brk_gap: u64,
    /// Bytes, a multiple of 16, between the strings on the stack and what is below them.
    pub stack_shift: u64,
}

/// Over how many pages stacks, and mappings and programs, are spread. Sanitizers know where a
/// machine's programs are on Linux, and refuse others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spread {
    stack: u64,
    mmap: u64,
}

impl Spread {
    /// Linux's on x86_64: 16 GiB and 1 TiB.
    pub const X86_64: Spread = Spread {
        stack: 1 << 22,
        mmap: 1 << 28,
    };
    /// Linux's on aarch64: 1 GiB each.
    pub const AARCH64: Spread = Spread {
        stack: 1 << 18,
        mmap: 1 << 18,
    };
}

/// 2^13 pages: 32 MiB.
const BRK_PAGES: u64 = 1 << 13;
/// Steps of 16 bytes: 8 KiB.
const SHIFTS: u64 = 512;
/// Room for the stack to grow, at the least.
const MIN_GAP: u64 = 128 << 20;

impl Offsets {
    /// Places below `user_end`, for a program with a soft limit of its stack. `random` draws the
    /// numbers; without it everything is at its first place.
    pub fn new(
        user_end: u64,
        stack_limit: u64,
        spread: Spread,
        mut random: Option<impl FnMut() -> u64>,
    ) -> Self {
        let stack_max = match random {
            Some(_) => spread.stack * PAGE_SIZE,
            None => 0,
        };
        let mut below = |count: u64| random.as_mut().map_or(0, |random| random() % count);
        let max_gap = user_end / 6 * 5 - stack_max;
        let gap = page_down(stack_limit.clamp(MIN_GAP, max_gap));
        Self {
            stack_top: user_end - below(spread.stack) * PAGE_SIZE,
            mmap_top: user_end - gap - stack_max - below(spread.mmap) * PAGE_SIZE,
            base: page_down(user_end / 3 * 2) + below(spread.mmap) * PAGE_SIZE,
            brk_gap: below(BRK_PAGES) * PAGE_SIZE,
            stack_shift: below(SHIFTS) * 16,
        }
    }
}

fn page_down(address: u64) -> u64 {
    address & !(PAGE_SIZE - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const USER_END: u64 = (1 << 47) - PAGE_SIZE;
    const LIMIT: u64 = 8 << 20;

    fn fixed(stack_limit: u64) -> Offsets {
        Offsets::new(USER_END, stack_limit, Spread::X86_64, None::<fn() -> u64>)
    }

    #[test]
    fn without_random_numbers_places_are_the_first() {
        let expected = Offsets {
            stack_top: USER_END,
            mmap_top: USER_END - MIN_GAP,
            base: 0x5555_5555_4000,
            brk_gap: 0,
            stack_shift: 0,
        };
        assert_eq!(fixed(LIMIT), expected);
    }

    #[test]
    fn a_larger_stack_leaves_less_to_mappings() {
        assert_eq!(fixed(1 << 30).mmap_top, USER_END - (1 << 30));
        let most = page_down(USER_END / 6 * 5);
        assert_eq!(fixed(u64::MAX).mmap_top, USER_END - most);
    }

    proptest! {
        #[test]
        fn places_are_apart_and_aligned(
            drawn in any::<[u64; 5]>(),
            stack_limit in any::<u64>(),
            spread in prop_oneof![Just(Spread::X86_64), Just(Spread::AARCH64)],
        ) {
            let mut drawn = drawn.into_iter();
            let random = || drawn.next().expect("five numbers are drawn");
            let places = Offsets::new(USER_END, stack_limit, spread, Some(random));
            let Offsets { stack_top, mmap_top, base, brk_gap, stack_shift } = places;
            prop_assert!([stack_top, mmap_top, base, brk_gap].iter().all(|n| n % PAGE_SIZE == 0));
            prop_assert_eq!(stack_shift % 16, 0);
            // The stack has its limit below it, or five sixths of user space.
            let room = stack_limit.min(USER_END / 6 * 5 - spread.stack * PAGE_SIZE);
            prop_assert!(stack_top <= USER_END && stack_top - mmap_top >= page_down(room));
            prop_assert!(base + brk_gap < USER_END);
        }
    }
}
