//! QEMU's execution log, one line for each instruction: how often each was executed.
use anyhow::{Context, Result};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// Executions by address.
pub type Counts = HashMap<u64, u64>;

/// Reads a log until its end; a pipe waits for its writer first.
pub fn read(path: &Path) -> Result<Counts> {
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let (mut counts, mut line) = (Counts::new(), Vec::new());
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line)? == 0 {
            return Ok(counts);
        }
        if let Some(address) = address(&line) {
            *counts.entry(address).or_default() += 1;
        }
    }
}

/// The address in `Trace CPU: BLOCK [BASE/ADDRESS/FLAGS/FLAGS] ...`.
fn address(line: &[u8]) -> Option<u64> {
    if !line.starts_with(b"Trace ") {
        return None;
    }
    let open = line.iter().position(|byte| *byte == b'[')?;
    let field = line[open..].split(|byte| *byte == b'/').nth(1)?;
    u64::from_str_radix(std::str::from_utf8(field).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tools::host::workspace::Temporary;

    #[test]
    fn addresses_of_a_log() {
        let log = "Trace 0: 0x7fe17c002cc0 [00000000/ffffffff80200040/000000b0/ff022201] \n\
                   Stopped execution of TB chain before 0x7f [00000000000ef35c]\n\
                   Trace 0: 0x7fe17c002e00 [00000000/ffffffff80200040/000000b0/ff022201] main\n\
                   Trace 0: 0x7fe17c002e00 [00000000/0000000000401000/000000b0/ff022201] \n";
        let file = Temporary::file("trace", log.as_bytes()).unwrap();
        assert_eq!(
            read(file.path()).unwrap(),
            Counts::from([(0xffff_ffff_8020_0040, 2), (0x40_1000, 1)])
        );
    }
}
