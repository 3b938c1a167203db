//! The two architectures and their names in each tool.
use anyhow::{Context, Result};
use clap::ValueEnum;
use serde_json::Value;
use std::fmt;

/// A machine that Quire runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum)]
pub enum Arch {
    /// 64-bit PC: q35 or microvm.
    #[value(name = "x86_64", alias = "x86-64")]
    X86_64,
    /// 64-bit Arm: virt, Raspberry Pi.
    #[value(name = "aarch64", alias = "arm64")]
    Aarch64,
}

impl Arch {
    /// Both, in the order in which they are reported.
    pub const ALL: [Arch; 2] = [Arch::X86_64, Arch::Aarch64];

    /// The name of `uname -m`, also used in paths.
    pub const fn name(self) -> &'static str {
        match self {
            Arch::X86_64 => "x86_64",
            Arch::Aarch64 => "aarch64",
        }
    }

    /// rustup's target for the kernel.
    pub const fn kernel_target(self) -> &'static str {
        match self {
            Arch::X86_64 => "x86_64-unknown-none",
            Arch::Aarch64 => "aarch64-unknown-none-softfloat",
        }
    }

    /// rustup's target for user programs.
    pub const fn user_target(self) -> &'static str {
        match self {
            Arch::X86_64 => "x86_64-unknown-linux-musl",
            Arch::Aarch64 => "aarch64-unknown-linux-musl",
        }
    }

    /// The emulator.
    pub const fn qemu(self) -> &'static str {
        match self {
            Arch::X86_64 => "qemu-system-x86_64",
            Arch::Aarch64 => "qemu-system-aarch64",
        }
    }

    /// The QEMU machines that Quire supports; the first is the default.
    pub const fn machines(self) -> &'static [&'static str] {
        match self {
            Arch::X86_64 => &["q35", "microvm"],
            Arch::Aarch64 => &["virt", "raspi3b", "raspi4b"],
        }
    }

    /// The architecture of the QEMU machine of this name.
    pub fn of_machine(name: &str) -> Option<Arch> {
        Arch::ALL
            .into_iter()
            .find(|arch| arch.machines().contains(&name))
    }

    /// The machine that a line of JSON names.
    pub fn of_line(line: &Value) -> Result<Arch> {
        let name = line["arch"].as_str().unwrap_or_default();
        let known = Arch::ALL.into_iter().find(|arch| arch.name() == name);
        known.with_context(|| format!("no machine is called {name:?}"))
    }

    /// The other one.
    pub const fn other(self) -> Arch {
        match self {
            Arch::X86_64 => Arch::Aarch64,
            Arch::Aarch64 => Arch::X86_64,
        }
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
