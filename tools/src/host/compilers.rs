//! C compilers, by their names on this host.
use crate::host::arch::Arch;

/// Those that make static programs for `arch` on this host, with the library of each.
pub fn of(arch: Arch) -> &'static [(&'static str, &'static str)] {
    match arch {
        Arch::X86_64 if std::env::consts::ARCH == "x86_64" => {
            &[("glibc", "gcc"), ("musl", "musl-gcc")]
        }
        Arch::X86_64 => &[
            ("glibc", "x86_64-linux-gnu-gcc"),
            ("musl", "x86_64-linux-musl-gcc"),
        ],
        Arch::Aarch64 if std::env::consts::ARCH == "aarch64" => {
            &[("glibc", "gcc"), ("musl", "musl-gcc")]
        }
        Arch::Aarch64 => &[
            ("glibc", "aarch64-linux-gnu-gcc"),
            ("musl", "aarch64-linux-musl-gcc"),
        ],
    }
}
