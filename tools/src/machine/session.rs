//! A scripted user at the console: types, and waits for expected output.
use crate::host::meter::Spent;
use crate::machine::guest::{End, Event, Guest};
use crate::machine::qemu::{Console, Machine};
use anyhow::{Result, bail};
use std::time::Duration;

/// What a guest may spend until an answer. Idle, it waits for what does not come: nothing that is
/// typed sleeps for as long as a tenth of that.
const PATIENCE: Spent = Spent {
    cpu: Duration::from_secs(120),
    idle: Duration::from_secs(30),
};

/// The prompt of the shell.
pub const PROMPT: &str = "quire# ";

/// A conversation with a guest.
pub struct Session {
    guest: Guest,
    text: String,
    /// How much of `text` was waited for already.
    seen: usize,
}

impl Session {
    /// Boots.
    pub fn start(machine: &Machine) -> Result<Self> {
        Ok(Session {
            guest: Guest::start(machine, Console::Pipes, true)?,
            text: String::new(),
            seen: 0,
        })
    }

    /// Types.
    pub fn send(&mut self, keys: &str) -> Result<()> {
        self.guest.send(keys.as_bytes())
    }

    /// Types and waits for what must appear behind it.
    pub fn answer(&mut self, keys: &str, words: &str) -> Result<String> {
        self.send(keys)?;
        self.expect(words)
    }

    /// Waits until `words` appear behind everything that was waited for before; returns what came
    /// up to them.
    pub fn expect(&mut self, words: &str) -> Result<String> {
        let limit = self.guest.limit(PATIENCE);
        loop {
            if let Some(at) = self.text[self.seen..].find(words) {
                let before = self.text[self.seen..self.seen + at].to_owned();
                self.seen += at + words.len();
                return Ok(before);
            }
            match self.guest.next_within(&[limit]) {
                Event::Output(bytes) => self
                    .text
                    .push_str(&String::from_utf8_lossy(&bytes).replace('\r', "")),
                Event::Ended(end) => bail!(
                    "the machine ended ({end:?}) before {words:?} appeared\n{}",
                    self.text
                ),
                Event::Nothing => bail!("{words:?} does not appear\n{}", self.text),
            }
        }
    }

    /// Waits for the end, which must be this status.
    pub fn ends_with(&mut self, status: u8) -> Result<()> {
        match self.end()? {
            End::Status(said) if said == status => Ok(()),
            end => bail!("the machine ended with {end:?}, not {status}"),
        }
    }

    /// Types a command line at the prompt and returns its echo and what it prints, once its status
    /// is known to be 0. The marker is written so that its echo does not look like it.
    pub fn command(&mut self, line: &str) -> Result<String> {
        self.send(&format!("{line}; echo sta''tus $?.\n"))?;
        let output = self.expect("status ")?;
        let status = self.expect(".\n")?;
        if status != "0" {
            bail!("{line}: status {status}\n{output}");
        }
        self.expect(PROMPT)?;
        Ok(output)
    }

    /// Ends the machine.
    pub fn stop(&mut self) {
        self.guest.stop();
    }

    /// Waits for the end of the machine.
    pub fn end(&mut self) -> Result<End> {
        let limit = self.guest.limit(PATIENCE);
        loop {
            match self.guest.next_within(&[limit]) {
                Event::Output(bytes) => self
                    .text
                    .push_str(&String::from_utf8_lossy(&bytes).replace('\r', "")),
                Event::Ended(end) => return Ok(end),
                Event::Nothing => bail!("the machine does not end\n{}", self.text),
            }
        }
    }
}
