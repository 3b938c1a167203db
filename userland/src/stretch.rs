//! The longest stretches of the kernel without interrupts and without other threads, as Quire
//! records them, and their limits. They are asserted where the clock counts instructions (`./run.sh
//! --icount`): elsewhere the host's pauses count.
use crate::sys::{file, time::counts_instructions};
use std::fmt;
use std::sync::OnceLock;

const FILE: &str = "/sys/kernel/mm/quire/longest_stretch";
/// Instructions in which no interrupt is served.
const INTERRUPTS: u64 = 1_000_000;
/// Instructions in which no other thread may run.
const THREADS: u64 = 2_000_000;
/// The record's descriptor is no smaller, out of the way of programs that count theirs.
const HIGH: i64 = 300;

/// A stretch, and why the thread was in the kernel: mostly the name of a system call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Stretch {
    instructions: u64,
    reason: String,
}

impl Stretch {
    /// From a line `KIND INSTRUCTIONS REASON` of the record.
    fn of(kind: &str, text: &str) -> Option<Stretch> {
        text.lines().find_map(|line| {
            let mut words = line.split_whitespace();
            (words.next() == Some(kind)).then_some(())?;
            Some(Stretch {
                instructions: words.next()?.parse().ok()?,
                reason: words.next()?.to_owned(),
            })
        })
    }
}

/// The longest stretches of both kinds; prints as `interrupts INSTRUCTIONS REASON, threads
/// INSTRUCTIONS REASON`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Longest {
    interrupts: Stretch,
    threads: Stretch,
}

impl Longest {
    /// From the record, two lines.
    fn parse(text: &str) -> Option<Longest> {
        Some(Longest {
            interrupts: Stretch::of("interrupts", text)?,
            threads: Stretch::of("threads", text)?,
        })
    }

    /// Fails when one is above its limit.
    pub fn judge(&self) -> Result<(), String> {
        let over = self.interrupts.instructions > INTERRUPTS || self.threads.instructions > THREADS;
        match over {
            true => Err(format!(
                "longest stretch: {self}; the limits are {INTERRUPTS} and {THREADS}"
            )),
            false => Ok(()),
        }
    }

    /// The longer of each kind.
    pub fn join(&mut self, other: Longest) {
        let pairs = [
            (&mut self.interrupts, other.interrupts),
            (&mut self.threads, other.threads),
        ];
        for (ours, other) in pairs {
            if other.instructions > ours.instructions {
                *ours = other;
            }
        }
    }
}

impl fmt::Display for Longest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Longest {
            interrupts: i,
            threads: t,
        } = self;
        write!(
            f,
            "interrupts {} {}, threads {} {}",
            i.instructions, i.reason, t.instructions, t.reason
        )
    }
}

/// The kernel's record, open: programs that unmount /sys do not close it.
pub struct Record {
    fd: i32,
    all: Longest,
}

impl Record {
    /// `None` where there is nothing to assert.
    pub fn open() -> Option<Record> {
        static COUNTED: OnceLock<bool> = OnceLock::new();
        if !COUNTED.get_or_init(counts_instructions) {
            return None;
        }
        let low = file::open(FILE, libc::O_RDWR, 0).ok()?;
        let high = file::fcntl(low, libc::F_DUPFD_CLOEXEC, HIGH);
        let _ = file::close(low);
        Some(Record {
            fd: high.ok()?,
            all: Longest::default(),
        })
    }

    /// Clears the record.
    pub fn begin(&self) -> Result<(), String> {
        let done = file::pwrite(self.fd, b"0", 0);
        done.map(drop).map_err(|e| format!("{FILE}: {e}"))
    }

    /// The longest stretches since the last [`Self::begin`].
    pub fn end(&mut self) -> Result<Longest, String> {
        let mut text = [0; 256];
        let read = file::pread(self.fd, &mut text, 0).map_err(|e| format!("{FILE}: {e}"))?;
        let text = String::from_utf8_lossy(&text[..read]);
        let longest = Longest::parse(&text).ok_or_else(|| format!("{FILE}: {text}"))?;
        self.all.join(longest.clone());
        Ok(longest)
    }

    /// A line about all that was recorded, as `./run.sh test --long` reads it.
    pub fn summary(&self) -> String {
        format!("longest stretch: {}", self.all)
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let _ = file::close(self.fd);
    }
}

#[cfg(test)]
mod tests {
    use super::Longest;

    fn of(interrupts: u64, threads: u64) -> Longest {
        let text = format!("interrupts {interrupts} read\nthreads {threads} fork\n");
        Longest::parse(&text).expect("two lines")
    }

    #[test]
    fn limits() {
        assert!(of(1_000_000, 2_000_000).judge().is_ok());
        assert!(of(1_000_001, 2_000_000).judge().is_err());
        assert!(of(0, 2_000_001).judge().is_err());
        assert_eq!(Longest::parse("interrupts 5 read\n"), None);
        assert_eq!(Longest::parse("interrupts 5\nthreads 5\n"), None);
    }

    #[test]
    fn the_longer_of_each_kind() {
        let mut all = of(5, 1);
        all.join(of(3, 7));
        assert_eq!(all.to_string(), "interrupts 5 read, threads 7 fork");
    }
}
