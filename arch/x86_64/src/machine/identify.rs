//! Descriptions of the CPU: /proc/cpuinfo, the boot line, AT_HWCAP.

use super::{features as cpu_features, fp, timer};
use crate::least::{Word, has};
use core::arch::x86_64::__cpuid_count;
use core::fmt::{self, Write};
use raw_cpuid::CpuId;

/// Names as in Linux's /proc/cpuinfo, by word.
const FLAGS: &[(Word, &[(u8, &str)])] = &[
    (
        Word::BasicEdx,
        &[
            (0, "fpu"),
            (1, "vme"),
            (2, "de"),
            (3, "pse"),
            (4, "tsc"),
            (5, "msr"),
            (6, "pae"),
            (7, "mce"),
            (8, "cx8"),
            (9, "apic"),
            (11, "sep"),
            (12, "mtrr"),
            (13, "pge"),
            (14, "mca"),
            (15, "cmov"),
            (16, "pat"),
            (17, "pse36"),
            (19, "clflush"),
            (23, "mmx"),
            (24, "fxsr"),
            (25, "sse"),
            (26, "sse2"),
            (27, "ss"),
            (28, "ht"),
        ],
    ),
    (
        Word::ExtendedEdx,
        &[
            (11, "syscall"),
            (20, "nx"),
            (22, "mmxext"),
            (25, "fxsr_opt"),
            (26, "pdpe1gb"),
            (27, "rdtscp"),
            (29, "lm"),
            (30, "3dnowext"),
            (31, "3dnow"),
        ],
    ),
    (
        Word::BasicEcx,
        &[
            (0, "pni"),
            (1, "pclmulqdq"),
            (3, "monitor"),
            (9, "ssse3"),
            (12, "fma"),
            (13, "cx16"),
            (17, "pcid"),
            (19, "sse4_1"),
            (20, "sse4_2"),
            (21, "x2apic"),
            (22, "movbe"),
            (23, "popcnt"),
            (24, "tsc_deadline_timer"),
            (25, "aes"),
            (26, "xsave"),
            (28, "avx"),
            (29, "f16c"),
            (30, "rdrand"),
            (31, "hypervisor"),
        ],
    ),
    (
        Word::ExtendedEcx,
        &[
            (0, "lahf_lm"),
            (2, "svm"),
            (4, "cr8_legacy"),
            (5, "abm"),
            (6, "sse4a"),
            (8, "3dnowprefetch"),
        ],
    ),
    (
        Word::MoreEbx,
        &[
            (0, "fsgsbase"),
            (3, "bmi1"),
            (5, "avx2"),
            (7, "smep"),
            (8, "bmi2"),
            (9, "erms"),
            (10, "invpcid"),
            (14, "mpx"),
            (16, "avx512f"),
            (18, "rdseed"),
            (19, "adx"),
            (20, "smap"),
            (23, "clflushopt"),
            (24, "clwb"),
            (29, "sha_ni"),
        ],
    ),
    (
        Word::MoreEcx,
        &[
            (2, "umip"),
            (3, "pku"),
            (9, "vaes"),
            (10, "vpclmulqdq"),
            (16, "la57"),
            (22, "rdpid"),
        ],
    ),
    (Word::MoreEdx, &[(4, "fsrm")]),
];

/// The lines of /proc/cpuinfo for one CPU, in Linux's format for this architecture.
pub fn describe(out: &mut dyn Write, number: usize) -> fmt::Result {
    let id = CpuId::new();
    let vendor = id.get_vendor_info();
    let brand = id.get_processor_brand_string();
    let (family, model, stepping) = id.get_feature_info().map_or((0, 0, 0), |f| {
        (f.family_id(), f.model_id(), f.stepping_id())
    });
    writeln!(out, "processor\t: {number}")?;
    writeln!(
        out,
        "vendor_id\t: {}",
        vendor.as_ref().map_or("unknown", |v| v.as_str())
    )?;
    writeln!(out, "cpu family\t: {family}")?;
    writeln!(out, "model\t\t: {model}")?;
    writeln!(
        out,
        "model name\t: {}",
        brand.as_ref().map_or("unknown", |b| b.as_str().trim())
    )?;
    writeln!(out, "stepping\t: {stepping}")?;
    let khz = timer::tsc_hz() / 1000;
    writeln!(out, "cpu MHz\t\t: {}.{:03}", khz / 1000, khz % 1000)?;
    writeln!(
        out,
        "physical id\t: {number}\nsiblings\t: 1\ncore id\t\t: 0\ncpu cores\t: 1"
    )?;
    writeln!(out, "fpu\t\t: yes\nfpu_exception\t: yes")?;
    writeln!(out, "cpuid level\t: {}", __cpuid_count(0, 0).eax)?;
    writeln!(out, "wp\t\t: yes")?;
    write!(out, "flags\t\t:")?;
    each_flag(&mut |name| write!(out, " {name}"))?;
    writeln!(out, "\nbogomips\t: {}.{:02}", khz / 500, khz / 5 % 100)?;
    writeln!(out, "clflush size\t: 64\ncache_alignment\t: 64")?;
    let sizes = __cpuid_count(0x8000_0008, 0).eax;
    writeln!(
        out,
        "address sizes\t: {} bits physical, {} bits virtual",
        sizes & 0xff,
        sizes >> 8 & 0xff
    )?;
    writeln!(out, "power management:\n")
}

/// What all CPUs have.
fn each_flag(f: &mut dyn FnMut(&'static str) -> fmt::Result) -> fmt::Result {
    let words = &cpu_features::get().words;
    for &(word, names) in FLAGS {
        for &(bit, name) in names {
            if has(words, (word, bit.into())) {
                f(name)?;
            }
            // What the kernel has turned on, as CPUID says from then on (OSPKE).
            if name == "pku" && cpu_features::get().pku {
                f("ospke")?;
            }
        }
    }
    Ok(())
}

/// Writes the features in use for the boot line ("nx smep smap umip xsave x2apic").
pub fn features(out: &mut dyn Write) -> fmt::Result {
    let have = cpu_features::get();
    write!(out, "nx")?;
    let used = [
        (have.smep, "smep"),
        (have.smap, "smap"),
        (have.umip, "umip"),
        (have.pku, "pku"),
        (have.fsgsbase, "fsgsbase"),
        (have.pages_1g, "pdpe1gb"),
        (have.x2apic, "x2apic"),
        (have.tsc_deadline, "tsc_deadline_timer"),
    ];
    for (_, name) in used.into_iter().filter(|u| u.0) {
        write!(out, " {name}")?;
    }
    match fp::all_components() {
        0 => write!(out, " fxsr"),
        mask => write!(
            out,
            " {}({mask:#x})",
            if have.xsaveopt { "xsaveopt" } else { "xsave" }
        ),
    }
}

/// AT_HWCAP (CPUID.1:EDX), AT_HWCAP2 (bit 1: RDFSBASE and WRFSBASE work in user mode).
pub fn hwcap() -> (u64, u64) {
    let have = cpu_features::get();
    (u64::from(have.hwcap), u64::from(have.fsgsbase) << 1)
}
