//! The longest stretches of the kernel without interrupts and without other threads, as Quire records them, and what they may
//! be at most. They are asserted where the clock counts instructions (`./run.sh --icount`): elsewhere the host's pauses count.
use crate::sys::time::counts_instructions;
use std::fs;
use std::sync::OnceLock;

const FILE: &str = "/sys/kernel/mm/quire/longest_stretch";
/// Instructions in which no interrupt is served.
const INTERRUPTS: u64 = 1_000_000;
/// Instructions in which no other thread may run.
const THREADS: u64 = 2_000_000;

/// A record of them that was begun.
pub struct Record(());

impl Record {
    /// Begins to record; `None` where there is nothing to assert.
    pub fn begin() -> Option<Record> {
        static COUNTED: OnceLock<bool> = OnceLock::new();
        let counted = COUNTED.get_or_init(counts_instructions);
        (*counted && fs::write(FILE, "0").is_ok()).then_some(Record(()))
    }

    /// What was longest since; an error when that is too long.
    pub fn end(self) -> Result<String, String> {
        let text = fs::read_to_string(FILE).map_err(|e| format!("{FILE}: {e}"))?;
        judge(&text)
    }
}

/// Lines `interrupts NS REASON` and `threads NS REASON` against the limits; the lines as one.
fn judge(text: &str) -> Result<String, String> {
    let line = text.trim().replace('\n', ", ");
    for (name, limit) in [("interrupts", INTERRUPTS), ("threads", THREADS)] {
        let found = text.lines().find_map(|line| {
            let mut words = line.split_whitespace();
            (words.next() == Some(name)).then(|| words.next()?.parse::<u64>().ok())?
        });
        match found {
            None => return Err(format!("longest_stretch without {name}: {line}")),
            Some(n) if n > limit => return Err(format!("longest stretch: {line}, not {limit}")),
            Some(_) => {}
        }
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::judge;

    #[test]
    fn limits() {
        let text = |a, b| format!("interrupts {a} read\nthreads {b} fork\n");
        assert!(judge(&text(1_000_000, 2_000_000)).is_ok());
        assert!(judge(&text(1_000_001, 2_000_000)).is_err());
        assert!(judge(&text(0, 2_000_001)).is_err());
        assert!(judge("interrupts 5 read\n").is_err());
        assert!(judge("").is_err());
    }
}
