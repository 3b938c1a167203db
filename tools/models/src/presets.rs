//! Real cores. (The figures and their sources are being verified; the names are stable.)

use crate::config::{CacheShape, Fill, Latencies, Preset, TlbArray, WalkCacheShape};

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// All presets.
pub const ALL: &[Preset] = &[CORTEX_A72, CORTEX_A76, ZEN4, GOLDEN_COVE];

/// The preset of a name.
pub fn named(name: &str) -> Option<Preset> {
    ALL.iter().copied().find(|preset| preset.name == name)
}

/// Arm Cortex-A72.
pub const CORTEX_A72: Preset = Preset {
    name: "cortex-a72",
    title: "Arm Cortex-A72",
    l1i: CacheShape {
        bytes: 48 * KIB,
        ways: 3,
    },
    l1d: CacheShape {
        bytes: 32 * KIB,
        ways: 2,
    },
    l2: None,
    last: CacheShape {
        bytes: MIB,
        ways: 16,
    },
    fill: Fill::Misses,
    dtlb: &[TlbArray {
        entries: 32,
        ways: 32,
        sizes: &[12, 16, 20],
    }],
    itlb: &[TlbArray {
        entries: 48,
        ways: 48,
        sizes: &[12, 16, 20],
    }],
    tlb2: &[TlbArray {
        entries: 1024,
        ways: 4,
        sizes: &[12, 16, 21, 30],
    }],
    itlb2: None,
    walk: WalkCacheShape {
        gib512: 4,
        gib1: 8,
        mib2: 16,
    },
    coalesces: false,
    latencies: Latencies {
        l1: 4,
        l2: 4,
        last: 21,
        remote: 50,
        memory: 200,
        tlb2: 5,
    },
    base_mcpi: 333,
};

/// Arm Cortex-A76.
pub const CORTEX_A76: Preset = Preset {
    name: "cortex-a76",
    title: "Arm Cortex-A76",
    l1i: CacheShape {
        bytes: 64 * KIB,
        ways: 4,
    },
    l1d: CacheShape {
        bytes: 64 * KIB,
        ways: 4,
    },
    l2: Some(CacheShape {
        bytes: 512 * KIB,
        ways: 8,
    }),
    last: CacheShape {
        bytes: 2 * MIB,
        ways: 16,
    },
    fill: Fill::Misses,
    dtlb: &[TlbArray {
        entries: 48,
        ways: 48,
        sizes: &[12, 16, 21, 29],
    }],
    itlb: &[TlbArray {
        entries: 48,
        ways: 48,
        sizes: &[12, 16, 21, 25],
    }],
    tlb2: &[TlbArray {
        entries: 1280,
        ways: 5,
        sizes: &[12, 16, 21, 25, 29, 30],
    }],
    itlb2: None,
    walk: WalkCacheShape {
        gib512: 4,
        gib1: 8,
        mib2: 16,
    },
    coalesces: false,
    latencies: Latencies {
        l1: 4,
        l2: 9,
        last: 31,
        remote: 60,
        memory: 200,
        tlb2: 3,
    },
    base_mcpi: 250,
};

/// AMD Zen 4.
pub const ZEN4: Preset = Preset {
    name: "zen4",
    title: "AMD Zen 4",
    l1i: CacheShape {
        bytes: 32 * KIB,
        ways: 8,
    },
    l1d: CacheShape {
        bytes: 32 * KIB,
        ways: 8,
    },
    l2: Some(CacheShape {
        bytes: MIB,
        ways: 8,
    }),
    last: CacheShape {
        bytes: 32 * MIB,
        ways: 16,
    },
    fill: Fill::Victims,
    dtlb: &[TlbArray {
        entries: 72,
        ways: 72,
        sizes: &[12, 14, 21, 30],
    }],
    itlb: &[TlbArray {
        entries: 64,
        ways: 64,
        sizes: &[12, 14, 21, 30],
    }],
    tlb2: &[TlbArray {
        entries: 3072,
        ways: 24,
        sizes: &[12, 14, 21],
    }],
    itlb2: Some(&[TlbArray {
        entries: 512,
        ways: 8,
        sizes: &[12, 21],
    }]),
    walk: WalkCacheShape {
        gib512: 16,
        gib1: 64,
        mib2: 64,
    },
    coalesces: true,
    latencies: Latencies {
        l1: 4,
        l2: 14,
        last: 50,
        remote: 100,
        memory: 350,
        tlb2: 7,
    },
    base_mcpi: 166,
};

/// Intel Golden Cove.
pub const GOLDEN_COVE: Preset = Preset {
    name: "golden-cove",
    title: "Intel Golden Cove",
    l1i: CacheShape {
        bytes: 32 * KIB,
        ways: 8,
    },
    l1d: CacheShape {
        bytes: 48 * KIB,
        ways: 12,
    },
    l2: Some(CacheShape {
        bytes: 1280 * KIB,
        ways: 10,
    }),
    last: CacheShape {
        bytes: 30 * MIB,
        ways: 12,
    },
    fill: Fill::Misses,
    dtlb: &[
        TlbArray {
            entries: 96,
            ways: 6,
            sizes: &[12],
        },
        TlbArray {
            entries: 32,
            ways: 8,
            sizes: &[21],
        },
        TlbArray {
            entries: 8,
            ways: 8,
            sizes: &[30],
        },
    ],
    itlb: &[
        TlbArray {
            entries: 256,
            ways: 8,
            sizes: &[12],
        },
        TlbArray {
            entries: 32,
            ways: 8,
            sizes: &[21],
        },
    ],
    tlb2: &[
        TlbArray {
            entries: 2048,
            ways: 16,
            sizes: &[12, 21],
        },
        TlbArray {
            entries: 1024,
            ways: 4,
            sizes: &[30],
        },
    ],
    itlb2: None,
    walk: WalkCacheShape {
        gib512: 4,
        gib1: 4,
        mib2: 32,
    },
    coalesces: false,
    latencies: Latencies {
        l1: 5,
        l2: 15,
        last: 65,
        remote: 120,
        memory: 400,
        tlb2: 7,
    },
    base_mcpi: 166,
};
