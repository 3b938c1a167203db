//! QEMU's monitor, by QMP: <https://www.qemu.org/docs/master/interop/qmp-spec.html>.
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// A connection; commands are done when they return.
pub struct Monitor(BufReader<UnixStream>);

impl Monitor {
    /// Connects to a machine that runs.
    pub fn connect(path: &Path) -> Result<Monitor> {
        let stream = UnixStream::connect(path).context("cannot connect to QEMU's monitor")?;
        let mut monitor = Monitor(BufReader::new(stream));
        monitor.answer("QMP")?;
        monitor.execute(&json!({"execute": "qmp_capabilities"}))?;
        Ok(monitor)
    }

    /// A command of the monitor for people.
    pub fn command(&mut self, line: &str) -> Result<()> {
        let said = self.execute(&json!({
            "execute": "human-monitor-command", "arguments": {"command-line": line}
        }))?;
        match said.as_str() {
            Some("") => Ok(()),
            _ => bail!("QEMU's monitor, asked for {line}: {said}"),
        }
    }

    fn execute(&mut self, command: &Value) -> Result<Value> {
        writeln!(self.0.get_mut(), "{command}")?;
        self.answer("return")
    }

    /// Waits for the message with this key; events in between are skipped.
    fn answer(&mut self, key: &str) -> Result<Value> {
        let mut line = String::new();
        loop {
            line.clear();
            if self.0.read_line(&mut line)? == 0 {
                bail!("QEMU has ended");
            }
            let mut message: Value = serde_json::from_str(&line)?;
            if let Some(error) = message.get("error") {
                bail!("QEMU's monitor: {error}");
            }
            if let Some(found) = message.get_mut(key) {
                return Ok(found.take());
            }
        }
    }
}
