//! Boots a machine for a test and keeps its console's output.
use crate::machine::guest::{End, Event, Guest};
use crate::machine::qemu::{Console, Machine};
use anyhow::Result;
use std::time::Duration;

/// A boot hangs that prints nothing for so much CPU time of each of its CPUs. A quiet stretch of a
/// sound boot takes a tenth of it.
pub const SILENCE: Duration = Duration::from_secs(60);

/// The result of a boot.
#[derive(Debug)]
pub struct Boot {
    /// How it ended.
    pub end: End,
    /// The console without carriage returns, QEMU's own messages (if any) at the end.
    pub text: String,
}

/// Boots and waits for the end; `each` sees every piece of output. Ends the machine when each of
/// its CPUs has used `limit` of CPU time, or [`SILENCE`] without output; and when it was idle for
/// as long, or for minutes.
pub fn watch(machine: &Machine, limit: Duration, each: impl FnMut(&[u8])) -> Result<Boot> {
    watch_patiently(machine, limit, SILENCE, each)
}

/// [`watch`] with another limit to silence: a foreign kernel may boot silently.
pub fn watch_patiently(
    machine: &Machine,
    limit: Duration,
    silence: Duration,
    mut each: impl FnMut(&[u8]),
) -> Result<Boot> {
    let mut guest = Guest::start(machine, Console::Pipes, true)?;
    let whole = guest.limit(limit);
    let mut quiet = guest.limit(silence);
    let mut bytes = Vec::new();
    let end = loop {
        match guest.next_within(&[whole, quiet]) {
            Event::Output(piece) => {
                each(&piece);
                bytes.extend(piece);
                quiet = guest.limit(silence);
            }
            Event::Ended(end) => break end,
            Event::Nothing => break End::Timeout,
        }
    };
    guest.stop();
    let text = String::from_utf8_lossy(&bytes).replace('\r', "");
    Ok(Boot {
        end,
        text: text + &guest.errors(),
    })
}

/// [`boot`], however long it prints nothing.
pub fn boot_patiently(machine: &Machine, limit: Duration) -> Result<Boot> {
    watch_patiently(machine, limit, limit, |_| {})
}

/// Boots and waits for the end, at most `limit`.
pub fn boot(machine: &Machine, limit: Duration) -> Result<Boot> {
    watch(machine, limit, |_| {})
}
