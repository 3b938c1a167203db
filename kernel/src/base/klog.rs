//! The kernel log: the `log` crate's messages, in a ring for /dev/kmsg and panics, and on the
//! console up to the level the command line chose.

use crate::arch;
use crate::base::{console, ranks};
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicU8, Ordering};
use log::{LevelFilter, Log, Metadata, Record};
use mm::sync::Lock;

/// Bytes of the log that are kept.
pub const RING_BYTES: usize = 16 << 10;

/// The last [`RING_BYTES`] of the log.
struct Ring {
    bytes: [u8; RING_BYTES],
    written: usize,
}

static RING: Lock<Ring, { ranks::LOG }> = Lock::new(Ring {
    bytes: [0; RING_BYTES],
    written: 0,
});
/// Highest `log` level that the console shows; relaxed: a message more or less does no harm.
static CONSOLE_LEVEL: AtomicU8 = AtomicU8::new(LevelFilter::Info as u8);

struct Logger;

/// Installs the logger of the `log` crate.
pub fn init() {
    // Fails only when a logger is there already, which does no harm.
    let _ = log::set_logger(&Logger);
    log::set_max_level(LevelFilter::Debug);
}

/// `loglevel=N` in Linux's numbers: messages of a level below N reach the console (7 is debug, 6
/// info, 4 warning).
pub fn set_console_level(linux: u8) {
    let level = match linux {
        0..=3 => LevelFilter::Off,
        4 => LevelFilter::Error,
        5 | 6 => LevelFilter::Warn,
        7 => LevelFilter::Info,
        _ => LevelFilter::Debug,
    };
    CONSOLE_LEVEL.store(level as u8, Ordering::Relaxed);
}

/// Gives the newest bytes of the log to `f`, oldest first, at most `most` of them, from the start
/// of a line. Nothing while the log is being written, since a panic reads it, too.
pub fn read_newest(most: usize, f: &mut dyn FnMut(&[u8])) {
    let Some(ring) = RING.try_lock() else { return };
    let len = most.min(ring.written).min(RING_BYTES);
    let start = (ring.written - len) % RING_BYTES;
    let (wrapped, first) = ring.bytes.split_at(start);
    let first = &first[..len.min(first.len())];
    let second = &wrapped[..len - first.len()];
    if len == ring.written {
        f(first);
        f(second);
        return;
    }
    match first.iter().position(|b| *b == b'\n') {
        Some(end) => {
            f(&first[end + 1..]);
            f(second);
        }
        None => f(second),
    }
}

impl Log for Logger {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let now = arch::timer::now();
        let (seconds, micros) = (now / 1_000_000_000, now / 1_000 % 1_000_000);
        let on_console = record.level() as u8 <= CONSOLE_LEVEL.load(Ordering::Relaxed);
        let mut out = Both {
            ring: &mut RING.lock(),
            console: on_console,
        };
        // Neither the ring nor the console can fail.
        let _ = write!(out, "[{seconds:5}.{micros:06}] ");
        let _ = write!(Escaped(&mut out), "{}", record.args());
        let _ = out.write_str(
            "
",
        );
    }

    fn flush(&self) {}
}

struct Both<'a> {
    ring: &'a mut Ring,
    console: bool,
}

impl Write for Both<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            let at = self.ring.written % RING_BYTES;
            self.ring.bytes[at] = byte;
            self.ring.written += 1;
        }
        if self.console {
            Console.write_str(text)?;
        }
        Ok(())
    }
}

/// Keeps a message on one line: a program chose its own name, and that may hold anything.
struct Escaped<'a, 'b>(&'a mut Both<'b>);

impl Write for Escaped<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for part in text.split_inclusive(char::is_control) {
            match part.chars().next_back().filter(|c| c.is_control()) {
                Some(control) => {
                    self.0.write_str(&part[..part.len() - control.len_utf8()])?;
                    write!(self.0, "{}", control.escape_default())?;
                }
                None => self.0.write_str(part)?,
            }
        }
        Ok(())
    }
}

/// The console as a writer; `\n` becomes `\r\n`.
pub struct Console;

impl Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for line in text.split_inclusive('\n') {
            match line.strip_suffix('\n') {
                Some(line) => {
                    console::write(line.as_bytes());
                    console::write(b"\r\n");
                }
                None => console::write(line.as_bytes()),
            }
        }
        Ok(())
    }
}
