//! Boots, each with what is expected of it.
use anyhow::{Result, ensure};
use std::time::Duration;
use tools::host::outcome::Outcome;
use tools::host::workspace::Temporary;
use tools::machine::console;
use tools::machine::guest::End;
use tools::machine::qemu::Machine;
use tools::machine::session::{PROMPT, Session};

const LIMIT: Duration = Duration::from_secs(240);

/// Boots with an initramfs; it must say all of `says` and end with `status`.
pub fn ends(
    machine: &Machine,
    initramfs: Option<&[u8]>,
    says: &[&str],
    status: u8,
) -> Result<Outcome> {
    let mut machine = machine.clone();
    let file = Temporary::name("cpio");
    if let Some(bytes) = initramfs {
        std::fs::write(file.path(), bytes)?;
        machine.initramfs = Some(file.path().to_owned());
    }
    let boot = console::boot_patiently(&machine, LIMIT)?;
    ensure!(
        boot.end == End::Status(status),
        "ended with {:?}, not {status}\n{}",
        boot.end,
        boot.text
    );
    for words in says {
        ensure!(
            boot.text.contains(words),
            "the console does not say {words:?}\n{}",
            boot.text
        );
    }
    Ok(Outcome::Passed)
}

/// A person types at the prompt, and the machine ends with the shell's status.
pub fn shell(machine: &Machine) -> Result<Outcome> {
    let mut machine = machine.clone();
    machine.command_line = "quiet -- sh".to_owned();
    let mut session = Session::start(&machine)?;
    session.expect(PROMPT)?;
    let said = session.command("cat /proc/cmdline")?;
    ensure!(said.contains("quiet -- sh"), "the shell says {said:?}");
    session.send("exit 9\n")?;
    session.ends_with(9)?;
    Ok(Outcome::Passed)
}
