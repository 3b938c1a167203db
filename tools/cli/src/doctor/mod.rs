//! `./run.sh doctor`: installed and missing programs, and the commands that install them; `--for`:
//! those for a fresh machine.
pub mod look;

use anyhow::Result;
use console::style;
use std::io::{self, IsTerminal};
use tools::args::DoctorArgs;
use tools::host::managers;
use tools::host::packages::Package;
use tools::host::system::{self, System, Systems};

/// How to get something.
#[derive(Debug, PartialEq, Eq)]
pub enum Get {
    /// By the system's package manager.
    Package(&'static Package),
    /// The Raspberry Pi's firmware.
    PiFirmware,
    /// By a command that is the same everywhere.
    Command(String),
}

/// A check and its result.
#[derive(Debug)]
pub enum Finding {
    /// It is fine.
    Good(String),
    /// Something cannot be done without it: what, and how to get it.
    Nice(String, Get),
    /// It must be there: what is wrong, and how to get it.
    Bad(String, Get),
}

impl Finding {
    fn good(what: impl Into<String>) -> Self {
        Finding::Good(what.into())
    }

    fn nice(what: impl Into<String>, get: Get) -> Self {
        Finding::Nice(what.into(), get)
    }

    fn bad(what: impl Into<String>, get: Get) -> Self {
        Finding::Bad(what.into(), get)
    }
}

/// Checks everything; exit status 1 when something required is missing. Or prints the commands for
/// a system.
pub fn doctor(args: &DoctorArgs) -> Result<u8> {
    let root = managers::is_root();
    let bold = io::stdout().is_terminal();
    if let Some(systems) = args.system {
        print!("{}", recipes(systems, System::here(), root, bold));
        return Ok(0);
    }
    let groups = [look::basics(), look::disks(), look::extras()];
    let here = System::here();
    print!("{}", report(&groups, here, root, bold));
    let bad = |finding: &Finding| matches!(finding, Finding::Bad(..));
    Ok(groups.iter().flatten().any(bad).into())
}

/// The commands for the systems that were asked for, this one first.
fn recipes(systems: Systems, here: Option<System>, root: bool, bold: bool) -> String {
    let mut wanted = match systems {
        Systems::One(system) => vec![system],
        Systems::All => System::ALL.to_vec(),
    };
    // Stable: the others stay in their order.
    wanted.sort_by_key(|system| Some(*system) != here);
    let text = wanted.iter().map(|system| {
        let is_here = Some(*system) == here;
        let name = system.name();
        let title = if is_here {
            format!("{name} (this system)")
        } else {
            name.to_owned()
        };
        let recipe = system.recipe(root && is_here);
        format!("## {}\n{recipe}", strong(&title, bold && is_here))
    });
    text.collect::<Vec<_>>().join("\n")
}

/// What was found, and at the end one command for each thing to do.
fn report(groups: &[Vec<Finding>; 3], here: Option<System>, root: bool, bold: bool) -> String {
    let mut text = String::new();
    for ((heading, _), findings) in system::GROUPS.iter().zip(groups) {
        text += &format!("{}\n", capital(heading));
        for finding in findings {
            let (mark, what) = match finding {
                Finding::Good(what) => (style("ok").green(), what),
                Finding::Nice(what, _) => (style("note").yellow(), what),
                Finding::Bad(what, _) => (style("MISSING").red().bold(), what),
            };
            text += &format!("  {mark:<8} {what}\n");
        }
    }
    let missing = commands(groups.iter().flatten(), here, root);
    text.push('\n');
    if missing.is_empty() {
        text += "Everything is here.\n";
    } else {
        let system = here.map_or("here", System::name);
        text += &format!("To get what is missing, on {system}:\n");
        for command in missing {
            text += &format!("  {}\n", strong(&command, bold));
        }
    }
    let names = "debian|ubuntu|fedora|arch|alpine|macos|all";
    text + &format!("Commands for a fresh machine: ./run.sh doctor --for {names}\n")
}

/// The commands that get all that is not good: one for each group of packages that must, and that
/// may be there.
fn commands<'a>(
    findings: impl Iterator<Item = &'a Finding> + Clone,
    here: Option<System>,
    root: bool,
) -> Vec<String> {
    let wanted = |must: bool| {
        findings.clone().filter_map(move |finding| match finding {
            Finding::Bad(_, get) if must => Some(get),
            Finding::Nice(_, get) if !must => Some(get),
            _ => None,
        })
    };
    let mut lines = Vec::new();
    for must in [true, false] {
        let mut packages = Vec::new();
        for get in wanted(must) {
            match get {
                Get::Package(package) if has(here, package) => packages.push(*package),
                Get::Package(package) => lines.push(match here {
                    Some(system) => {
                        format!("# {} has no package for {}", system.name(), package.what)
                    }
                    None => package.how(),
                }),
                Get::PiFirmware => lines.push(system::PI_FIRMWARE.to_owned()),
                Get::Command(command) => lines.push(command.clone()),
            }
        }
        lines.extend(here.and_then(|system| system.install(&packages, root)));
    }
    lines
}

fn has(here: Option<System>, package: &Package) -> bool {
    here.is_some_and(|system| !package.names(system.manager()).is_empty())
}

fn strong(text: &str, bold: bool) -> String {
    match bold {
        true => format!("\x1b[1m{text}\x1b[0m"),
        false => text.to_owned(),
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tools::host::packages as all;

    fn groups() -> [Vec<Finding>; 3] {
        [
            vec![
                Finding::good("rustc 1"),
                Finding::bad("qemu-system-aarch64", Get::Package(&all::QEMU_AARCH64)),
                Finding::bad("a target", Get::Command("rustup target add x".to_owned())),
            ],
            vec![
                Finding::nice("no OVMF", Get::Package(&all::OVMF)),
                Finding::nice("no AAVMF", Get::Package(&all::AAVMF)),
                Finding::nice("no firmware", Get::PiFirmware),
            ],
            vec![Finding::nice("no coqc", Get::Package(&all::COQ))],
        ]
    }

    #[test]
    fn a_report() {
        let text = report(&groups(), Some(System::Fedora), false, true);
        let expected = "To build and to boot
  ok       rustc 1
  MISSING  qemu-system-aarch64
  MISSING  a target
For ISO images, Limine, UEFI and a Raspberry Pi
  note     no OVMF
  note     no AAVMF
  note     no firmware
For --gdb, and for tests that are skipped without
  note     no coqc

To get what is missing, on Fedora:
  \x1b[1mrustup target add x\x1b[0m
  \x1b[1msudo dnf install -y qemu-system-aarch64-core\x1b[0m
  \x1b[1mgit clone --depth 1 --filter=blob:none --sparse https://github.com/raspberrypi/firmware && git -C firmware sparse-checkout set boot && export RPI_FIRMWARE=$PWD/firmware/boot\x1b[0m
  \x1b[1msudo dnf install -y edk2-ovmf edk2-aarch64 coq\x1b[0m
Commands for a fresh machine: ./run.sh doctor --for debian|ubuntu|fedora|arch|alpine|macos|all
";
        assert_eq!(text, expected, "{text}");
    }

    #[test]
    fn brew_says_a_name_once() {
        let text = report(&groups(), Some(System::Macos), false, false);
        assert!(text.contains("\n  brew install qemu\n"), "{text}");
        assert!(text.contains("\n  brew install qemu coq\n"), "{text}");
    }

    #[test]
    fn what_the_system_has_no_package_for_is_told_otherwise() {
        let text = report(&groups(), Some(System::Alpine), true, false);
        assert!(
            text.contains("\n  # Alpine has no package for coqc\n"),
            "{text}"
        );
        assert!(!text.contains("apk add ovmf aavmf coq"), "{text}");
    }

    #[test]
    fn nothing_missing() {
        let text = report(&[vec![], vec![], vec![]], None, true, true);
        assert!(text.contains("\nEverything is here.\n"), "{text}");
    }

    #[test]
    fn this_system_comes_first_and_bold() {
        let text = recipes(Systems::All, Some(System::Arch), true, true);
        assert!(
            text.starts_with("## \x1b[1mArch Linux (this system)\x1b[0m\n"),
            "{text}"
        );
        let titles: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("## "))
            .collect();
        assert_eq!(titles.len(), 6, "{text}");
        // The user may be root here and not there.
        assert!(
            text.contains("\npacman ") && text.contains("sudo dnf "),
            "{text}"
        );
        let one = recipes(Systems::One(System::Fedora), None, false, true);
        assert!(
            one.starts_with("## Fedora\n") && !one.contains("apk"),
            "{one}"
        );
    }
}
