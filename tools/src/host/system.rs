//! Operating systems, and the commands that install everything there.
use crate::host::managers;
use crate::host::packages::{self as all, Package};
use clap::ValueEnum;
use std::fs;

/// A system with a supported package manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum System {
    /// Debian.
    Debian,
    /// Ubuntu and what is made from it.
    Ubuntu,
    /// Fedora.
    Fedora,
    /// Arch Linux.
    Arch,
    /// Alpine.
    Alpine,
    /// macOS with Homebrew.
    Macos,
}

/// One of them or all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Systems {
    /// One.
    One(System),
    /// Every one.
    All,
}

impl ValueEnum for Systems {
    fn value_variants<'a>() -> &'a [Self] {
        use System::*;
        &[
            Systems::One(Debian),
            Systems::One(Ubuntu),
            Systems::One(Fedora),
            Systems::One(Arch),
            Systems::One(Alpine),
            Systems::One(Macos),
            Systems::All,
        ]
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        match self {
            Systems::One(system) => system.to_possible_value(),
            Systems::All => Some("all".into()),
        }
    }
}

/// A group of packages and its heading.
pub const GROUPS: [(&str, &[&Package]); 3] = [
    (
        "to build and to boot",
        &[
            &all::CC,
            &all::CURL,
            &all::QEMU_X86_64,
            &all::QEMU_AARCH64,
            &all::SEABIOS,
        ],
    ),
    (
        "for ISO images, Limine, UEFI and a Raspberry Pi",
        &[&all::XORRISO, &all::OVMF, &all::AAVMF],
    ),
    (
        "for --gdb, and for tests that are skipped without",
        &[
            &all::GDB,
            &all::MUSL,
            &all::CROSS_AARCH64,
            &all::QEMU_USER,
            &all::BUSYBOX,
            &all::COQ,
        ],
    ),
];

/// Rust's own way, the same everywhere.
const RUSTUP: &str = "curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh";
/// The Pi's firmware from where it comes from: Debian's package is not made for PCs.
pub const PI_FIRMWARE: &str = "git clone --depth 1 --filter=blob:none --sparse https://github.com/raspberrypi/firmware && \
                               git -C firmware sparse-checkout set boot && export RPI_FIRMWARE=$PWD/firmware/boot";

impl System {
    /// All of them.
    pub const ALL: [System; 6] = [
        System::Debian,
        System::Ubuntu,
        System::Fedora,
        System::Arch,
        System::Alpine,
        System::Macos,
    ];

    /// This one.
    pub fn here() -> Option<System> {
        if std::env::consts::OS == "macos" {
            return Some(System::Macos);
        }
        let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
        System::of_release(&release).or_else(System::of_manager)
    }

    /// The one that `/etc/os-release` names (os-release(5)), or the first that it says to be like.
    pub fn of_release(text: &str) -> Option<System> {
        let field = |name: &str| {
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
            line.unwrap_or_default().trim_matches(['"', '\''])
        };
        let words = field("ID").split(' ').chain(field("ID_LIKE").split(' '));
        words.into_iter().find_map(|word| match word {
            "debian" => Some(System::Debian),
            "ubuntu" => Some(System::Ubuntu),
            "fedora" => Some(System::Fedora),
            "arch" => Some(System::Arch),
            "alpine" => Some(System::Alpine),
            _ => None,
        })
    }

    fn of_manager() -> Option<System> {
        let manager = managers::installed()?;
        System::ALL
            .into_iter()
            .find(|system| system.manager() == manager)
    }

    /// Its package manager's command.
    pub fn manager(self) -> &'static str {
        match self {
            System::Debian | System::Ubuntu => "apt-get",
            System::Fedora => "dnf",
            System::Arch => "pacman",
            System::Alpine => "apk",
            System::Macos => "brew",
        }
    }

    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            System::Debian => "Debian",
            System::Ubuntu => "Ubuntu",
            System::Fedora => "Fedora",
            System::Arch => "Arch Linux",
            System::Alpine => "Alpine",
            System::Macos => "macOS",
        }
    }

    /// One line that installs these packages, as root or by sudo; `None` when the system has none
    /// of them.
    pub fn install(self, packages: &[&Package], root: bool) -> Option<String> {
        let names = packages
            .iter()
            .flat_map(|package| package.names(self.manager()));
        let names: Vec<&str> = names.collect();
        let commands = managers::commands_as(self.manager(), &names, root);
        (!names.is_empty()).then(|| managers::line(&commands))
    }

    /// Limits and needs of the system's QEMU.
    fn remark(self) -> Option<&'static str> {
        match self {
            System::Debian => Some("raspi4b needs QEMU 9: Debian 12 has it in bookworm-backports"),
            System::Ubuntu => Some("raspi4b needs QEMU 9: Ubuntu has it since 24.10"),
            _ => None,
        }
    }

    /// The commands for a fresh machine, as lines for a shell.
    pub fn recipe(self, root: bool) -> String {
        let mut text = String::new();
        let mut say = |line: &str| {
            text += line;
            text.push('\n');
        };
        for (at, (heading, packages)) in GROUPS.into_iter().enumerate() {
            say(&format!("# {heading}"));
            if at == 0 && self == System::Macos {
                say("xcode-select --install");
            }
            if let Some(line) = self.install(packages, root) {
                say(&line);
            }
            match at {
                0 => {
                    say(RUSTUP);
                    if let Some(remark) = self.remark() {
                        say(&format!("# {remark}"));
                    }
                }
                1 => say(PI_FIRMWARE),
                _ => {}
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_by_os_release() {
        let of = System::of_release;
        assert_eq!(of("NAME=x\nID=debian\n"), Some(System::Debian));
        assert_eq!(
            of("ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n"),
            Some(System::Ubuntu)
        );
        assert_eq!(
            of("ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\""),
            Some(System::Fedora)
        );
        assert_eq!(of("ID=alpine\nVERSION_ID=3.22"), Some(System::Alpine));
        assert_eq!(of("ID=manjaro\nID_LIKE=arch"), Some(System::Arch));
        assert_eq!(of("ID=nixos"), None);
        assert_eq!(of(""), None);
    }

    #[test]
    fn recipes() {
        let all: String = System::ALL
            .into_iter()
            .map(|system| format!("{}\n{}\n", system.name(), system.recipe(false)))
            .collect();
        assert_eq!(all, include_str!("recipes.txt"), "{all}");
    }

    #[test]
    fn the_container_has_debian_s_packages() {
        let container = include_str!("../../../Dockerfile");
        let recipe = System::Debian.recipe(true);
        let installs = recipe.lines().filter(|line| line.starts_with("apt-get"));
        let packages =
            installs.flat_map(|line| line.split_once("recommends ").unwrap().1.split(' '));
        for package in packages {
            let there = container.split_whitespace().any(|word| word == package);
            assert!(there, "{package}");
        }
    }

    #[test]
    fn root_needs_no_sudo() {
        for system in System::ALL {
            assert!(!system.recipe(true).contains("sudo "), "{system:?}");
        }
    }
}
