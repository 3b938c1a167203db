//! The features of a machine's CPUs as words of CPUID (SDM Vol 2 "CPUID", APM Vol 3 appendix E):
//! what the kernel uses and shows of them is what all CPUs have.

/// A word of CPUID that the kernel uses or shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// Leaf 1, EDX: AT_HWCAP.
    BasicEdx,
    /// Leaf 1, ECX.
    BasicEcx,
    /// Leaf 7, EBX.
    MoreEbx,
    /// Leaf 7, ECX.
    MoreEcx,
    /// Leaf 7, EDX.
    MoreEdx,
    /// Leaf 0x8000_0001, EDX.
    ExtendedEdx,
    /// Leaf 0x8000_0001, ECX.
    ExtendedEcx,
    /// Leaf 0xd, EAX: components of the extended state that XCR0 may have.
    State,
    /// Leaf 0xd, 1, EAX: XSAVEOPT and its like.
    Save,
}

/// All of them.
pub const WORDS: [Word; 9] = [
    Word::BasicEdx,
    Word::BasicEcx,
    Word::MoreEbx,
    Word::MoreEcx,
    Word::MoreEdx,
    Word::ExtendedEdx,
    Word::ExtendedEcx,
    Word::State,
    Word::Save,
];

/// The words of one CPU, or of several: a bit of a word says that a feature is there.
pub type Words = [u32; WORDS.len()];

/// 1 GiB pages.
pub const PAGES_1G: (Word, u32) = (Word::ExtendedEdx, 26);
/// The local APIC can be driven by model-specific registers.
pub const X2APIC: (Word, u32) = (Word::BasicEcx, 21);
/// The local APIC timer takes a TSC value.
pub const TSC_DEADLINE: (Word, u32) = (Word::BasicEcx, 24);
/// XSAVE and XRSTOR.
pub const XSAVE: (Word, u32) = (Word::BasicEcx, 26);
/// CMPXCHG16B, which the kernel requires.
const CX16: (Word, u32) = (Word::BasicEcx, 13);

/// What is in use already when the other CPUs come, and cannot be given up any more: the direct map
/// has leaves of 1 GiB, the APIC and its timer have their modes, and contexts have their format.
const IN_USE: [(Word, u32); 5] = [PAGES_1G, X2APIC, TSC_DEADLINE, XSAVE, CX16];

/// Protection keys.
pub const PKU: (Word, u32) = (Word::MoreEcx, 3);

/// Extended state that is in use when the CPUs have it: x87, SSE, AVX, AVX-512's three, PKRU. AMX
/// stays off.
const USED: u32 = 0b111 | AVX_512 | PKRU as u32;
/// The register of protection keys, which the kernel does not save with the others.
pub const PKRU: u64 = 1 << 9;
const AVX_512: u32 = 0b111 << 5;
/// Whoever has XSAVE has these (SDM Vol 1, 13.2).
const X87_SSE: u32 = 0b11;

/// Whether a feature is there.
pub const fn has(words: &Words, feature: (Word, u32)) -> bool {
    words[feature.0 as usize] >> feature.1 & 1 != 0
}

/// What two CPUs have both.
pub fn least(one: &Words, other: &Words) -> Words {
    core::array::from_fn(|at| one[at] & other[at])
}

/// Whether a CPU with the words `own` can run a kernel that the boot CPU has set up by its own.
pub fn fits(boot: &Words, own: &Words) -> bool {
    IN_USE.iter().all(|it| !has(boot, *it) || has(own, *it))
}

/// The components of the extended state to use (XCR0); 0 without XSAVE.
pub const fn state(words: &Words) -> u64 {
    if !has(words, XSAVE) {
        return 0;
    }
    let mut mask = words[Word::State as usize] & USED;
    if mask & AVX_512 != AVX_512 {
        // All or nothing.
        mask &= !AVX_512;
    }
    if !has(words, PKU) {
        mask &= !(PKRU as u32);
    }
    (mask | X87_SSE) as u64
}

/// A CPU that has nothing that the kernel can do without: what `quire.least_cpu=N` makes of CPU N.
pub fn without_options(words: &Words) -> Words {
    let mut left = [0; WORDS.len()];
    for (word, bit) in IN_USE {
        left[word as usize] |= 1 << bit;
    }
    left[Word::BasicEdx as usize] = u32::MAX;
    left[Word::ExtendedEdx as usize] = u32::MAX;
    left[Word::State as usize] = X87_SSE;
    // That there is a hypervisor.
    left[Word::BasicEcx as usize] |= 1 << 31;
    least(words, &left)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(features: &[(Word, u32)]) -> Words {
        let mut words = [0; WORDS.len()];
        for (word, bit) in features {
            words[*word as usize] |= 1 << bit;
        }
        words
    }

    const SMAP: (Word, u32) = (Word::MoreEbx, 20);
    const AVX: (Word, u32) = (Word::State, 2);

    #[test]
    fn a_word_stands_where_its_number_says() {
        for (at, word) in WORDS.iter().enumerate() {
            assert_eq!(*word as usize, at);
        }
    }

    #[test]
    fn the_least_is_what_both_have() {
        let (one, other) = (words(&[XSAVE, SMAP]), words(&[XSAVE, AVX]));
        assert_eq!(least(&one, &other), words(&[XSAVE]));
        assert_eq!(least(&one, &one), one);
    }

    #[test]
    fn a_cpu_may_lack_only_what_is_not_in_use() {
        let mut boot = words(&IN_USE);
        boot[SMAP.0 as usize] |= 1 << SMAP.1;
        assert!(fits(&boot, &boot));
        assert!(fits(&words(&[]), &boot), "it may have more");
        assert!(fits(&boot, &without_options(&boot)));
        for it in IN_USE {
            let mut own = boot;
            own[it.0 as usize] &= !(1 << it.1);
            assert!(!fits(&boot, &own) && fits(&own, &own));
        }
    }

    #[test]
    fn the_state_is_what_all_can_save() {
        let with = |bits: u32| {
            let mut words = words(&[XSAVE]);
            words[Word::State as usize] = bits;
            state(&words)
        };
        assert_eq!(state(&words(&[AVX])), 0, "no XSAVE");
        assert_eq!(with(0b111), 0b111);
        assert_eq!(with(0xe7), 0xe7);
        // Two of AVX-512's three; PKRU; AMX.
        assert_eq!(with(0x67 | 1 << 9 | 3 << 17), 0b111);
    }

    #[test]
    fn a_cpu_without_options_has_what_the_kernel_requires() {
        let all = [u32::MAX; WORDS.len()];
        let left = without_options(&all);
        assert!(IN_USE.iter().all(|it| has(&left, *it)));
        assert!(!has(&left, SMAP) && state(&left) == u64::from(X87_SSE));
        assert_eq!(without_options(&[0; WORDS.len()]), [0; WORDS.len()]);
    }
}
