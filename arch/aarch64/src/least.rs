//! The features of a machine's CPUs as words of ID registers (Arm ARM D23.2): what is shown to
//! programs is what all CPUs have.

/// A register whose fields may be shown to user mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Id {
    /// ID_AA64PFR0_EL1.
    Pfr0,
    /// ID_AA64PFR1_EL1.
    Pfr1,
    /// ID_AA64ISAR0_EL1.
    Isar0,
    /// ID_AA64ISAR1_EL1.
    Isar1,
    /// ID_AA64MMFR2_EL1.
    Mmfr2,
}

/// All of them.
pub const IDS: [Id; 5] = [Id::Pfr0, Id::Pfr1, Id::Isar0, Id::Isar1, Id::Mmfr2];

/// The visible fields of one CPU's registers, or of several CPUs'.
pub type Shown = [u64; IDS.len()];

/// Where FP and AdvSIMD lie in ID_AA64PFR0_EL1: these are signed, and 15 is "not there".
const FP: u32 = 16;
const ADVSIMD: u32 = 20;
const NOT_THERE: u64 = 0xf;

impl Id {
    /// The fields that user mode may see: what works without support of the kernel, or with support
    /// that exists.
    pub const fn visible(self) -> u64 {
        match self {
            // FP, AdvSIMD, DIT.
            Id::Pfr0 => 0x000f_0000_00ff_0000,
            // SSBS; no BT, MTE, SME.
            Id::Pfr1 => 0xf0,
            // All but TLB.
            Id::Isar0 => 0xf0ff_ffff_f0ff_fff0,
            // I8MM, DGH, BF16, SB, FRINTTS, LRCPC, FCMA, JSCVT, DPB; no pointer authentication.
            Id::Isar1 => 0x00ff_f0ff_00ff_f00f,
            // AT: unaligned atomics.
            Id::Mmfr2 => 0xf << 32,
        }
    }

    /// Whether a field has at least this value, which stands for a feature that builds on those of
    /// lower values.
    pub fn has(self, register: u64, shift: u32, least: u64) -> bool {
        let value = field(register, shift);
        value >= least && !(self.is_signed(shift) && value == NOT_THERE)
    }

    fn is_signed(self, shift: u32) -> bool {
        self == Id::Pfr0 && (shift == FP || shift == ADVSIMD)
    }

    /// What two CPUs have both: of each field the lower value.
    fn least(self, one: u64, other: u64) -> u64 {
        let field_of_both = |at: u32| {
            let fields = [one, other].map(|register| field(register, at));
            match self.is_signed(at) && fields.contains(&NOT_THERE) {
                true => NOT_THERE << at,
                false => fields[0].min(fields[1]) << at,
            }
        };
        (0..64).step_by(4).map(field_of_both).sum()
    }
}

/// A 4-bit field of an ID register.
pub const fn field(register: u64, shift: u32) -> u64 {
    register >> shift & 0xf
}

/// What two CPUs have both.
pub fn least(one: &Shown, other: &Shown) -> Shown {
    IDS.map(|id| id.least(one[id as usize], other[id as usize]))
}

/// A CPU that has nothing but FP and AdvSIMD: what `quire.least_cpu=N` makes of CPU N.
pub const WITHOUT_OPTIONS: Shown = [0; IDS.len()];

/// What the kernel has in use when the other CPUs come, and cannot give up any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InUse {
    /// ID_AA64MMFR0_EL1: how many bits a physical address has, and an ASID.
    pub mmfr0: u64,
    /// CTR_EL0: lines of the caches, and what need not be done for instructions that were written.
    pub ctr: u64,
    /// DCZID_EL0: what DC ZVA zeroes.
    pub dczid: u64,
    /// CNTFRQ_EL0.
    pub frequency: u64,
    /// ID_AA64PFR0_EL1: FP and AdvSIMD are saved.
    pub pfr0: u64,
}

impl InUse {
    /// Whether a CPU can run a kernel that the boot CPU, with `boot`, has set up by its own.
    pub fn fits(&self, boot: &InUse) -> bool {
        // IminLine, DminLine, IDC, DIC: programs ask one CPU and rely on it on any.
        const LINES: u64 = 0x300f_000f;
        let no_less = |shift| field(self.mmfr0, shift) >= field(boot.mmfr0, shift);
        let as_well = |shift| {
            let has = |of: &InUse| Id::Pfr0.has(of.pfr0, shift, 0);
            has(self) || !has(boot)
        };
        no_less(0)
            && no_less(4)
            && as_well(FP)
            && as_well(ADVSIMD)
            && (self.ctr ^ boot.ctr) & LINES == 0
            && (self.dczid, self.frequency) == (boot.dczid, boot.frequency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_register_stands_where_its_number_says() {
        for (at, id) in IDS.iter().enumerate() {
            assert_eq!(*id as usize, at);
        }
    }

    #[test]
    fn of_each_field_the_lower_value() {
        assert_eq!(Id::Isar0.least(0x1021_0122, 0x0121_2111), 0x0021_0111);
        assert_eq!(Id::Isar1.least(0xf << 60 | 2, 0xe << 60 | 3), 0xe << 60 | 2);
    }

    #[test]
    fn fp_that_one_cpu_lacks_is_not_there() {
        let (half, plain, none) = (0x11 << FP, 0, 0xff << FP);
        assert_eq!(Id::Pfr0.least(half, plain), plain);
        assert_eq!(Id::Pfr0.least(half, none), none);
        assert_eq!(Id::Pfr0.least(none, plain), none);
        assert!(Id::Pfr0.has(plain, FP, 0) && !Id::Pfr0.has(none, FP, 0));
        // The same value elsewhere is a high one.
        assert_eq!(Id::Isar0.least(none, plain), plain);
        assert!(Id::Isar0.has(none, FP, 2));
    }

    #[test]
    fn the_least_of_a_cpu_without_options_is_nothing_but_fp() {
        let all = IDS.map(|id| id.visible() & 0x1111_1111_1111_1111);
        assert_eq!(least(&all, &WITHOUT_OPTIONS), WITHOUT_OPTIONS);
        assert_eq!(least(&all, &all), all);
    }

    #[test]
    fn a_cpu_may_lack_only_what_is_not_in_use() {
        let boot = InUse {
            mmfr0: 0x24,
            ctr: 0x8444_c004,
            dczid: 4,
            frequency: 62_500_000,
            pfr0: 0x11 << FP,
        };
        let with = |change: fn(&mut InUse)| {
            let mut own = boot;
            change(&mut own);
            own.fits(&boot)
        };
        assert!(boot.fits(&boot));
        assert!(with(|own| own.mmfr0 = 0x26), "more memory than is used");
        assert!(with(|own| own.pfr0 = 0), "no half precision");
        assert!(with(|own| own.ctr ^= 0x4000), "another kind of cache");
        assert!(!with(|own| own.mmfr0 = 0x04), "8-bit ASIDs");
        assert!(!with(|own| own.mmfr0 = 0x23), "less memory");
        assert!(!with(|own| own.pfr0 = 0xff << FP), "no FP");
        assert!(!with(|own| own.ctr = 0x8443_c004), "shorter lines");
        assert!(!with(|own| own.dczid = 3) && !with(|own| own.frequency = 1));
    }
}
