//! The name of a core file, by the pattern in /proc/sys/kernel/core_pattern: core(5).

use core::fmt::{self, Write};

/// Bytes of a pattern at most.
pub const LONGEST: usize = 127;
/// Bytes of a name at most.
const NAME: usize = 255;

/// What a name may tell.
pub struct Facts<'a> {
    /// The process.
    pub pid: i32,
    /// The thread that took the signal.
    pub tid: i32,
    /// Its real user and group.
    pub ids: (u32, u32),
    /// The signal.
    pub signal: i32,
    /// Seconds since 1970.
    pub time: u64,
    /// The host's name.
    pub host: &'a [u8],
    /// The thread's.
    pub comm: &'a [u8],
}

/// A name.
pub struct Name {
    bytes: [u8; NAME],
    len: usize,
}

impl Name {
    /// By the pattern: `%p` and `%P` are the process, `%i` and `%I` the thread, `%u` `%g` user and
    /// group, `%s` the signal, `%t` the time, `%h` the host, `%e` the thread's name, `%%` is `%`;
    /// others are nothing. `None`: it would have more than 255 bytes.
    pub fn new(pattern: &[u8], facts: &Facts<'_>) -> Option<Name> {
        let mut name = Name {
            bytes: [0; NAME],
            len: 0,
        };
        name.write(pattern, facts).ok().map(|()| name)
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn write(&mut self, pattern: &[u8], facts: &Facts<'_>) -> fmt::Result {
        let mut rest = pattern.iter();
        while let Some(byte) = rest.next() {
            if *byte != b'%' {
                self.put(&[*byte])?;
                continue;
            }
            match rest.next() {
                Some(b'%') => self.put(b"%")?,
                Some(b'p' | b'P') => write!(self, "{}", facts.pid)?,
                Some(b'i' | b'I') => write!(self, "{}", facts.tid)?,
                Some(b'u') => write!(self, "{}", facts.ids.0)?,
                Some(b'g') => write!(self, "{}", facts.ids.1)?,
                Some(b's') => write!(self, "{}", facts.signal)?,
                Some(b't') => write!(self, "{}", facts.time)?,
                Some(b'h') => self.put_in_one_folder(facts.host)?,
                Some(b'e') => self.put_in_one_folder(facts.comm)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> fmt::Result {
        let room = self.bytes.get_mut(self.len..self.len + bytes.len());
        room.ok_or(fmt::Error)?.copy_from_slice(bytes);
        self.len += bytes.len();
        Ok(())
    }

    /// What a program chooses leads into no other folder.
    fn put_in_one_folder(&mut self, bytes: &[u8]) -> fmt::Result {
        let mut bytes = bytes.iter();
        bytes.try_for_each(|byte| self.put(&[if *byte == b'/' { b'!' } else { *byte }]))
    }
}

impl Write for Name {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.put(text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_says_what_a_name_tells() {
        let facts = Facts {
            pid: 12,
            tid: 13,
            ids: (1000, 100),
            signal: 11,
            time: 1_700_000_000,
            host: b"quire",
            comm: b"a/../b",
        };
        let name = |pattern: &str| {
            let name = Name::new(pattern.as_bytes(), &facts)?;
            Some(str::from_utf8(name.bytes()).unwrap().to_owned())
        };
        for (pattern, expected) in [
            ("core", "core"),
            ("/tmp/dump-%p", "/tmp/dump-12"),
            ("%P.%i.%I.%u.%g.%s", "12.13.13.1000.100.11"),
            ("%h-%e-%t", "quire-a!..!b-1700000000"),
            ("100%%%x%", "100%"),
            ("", ""),
        ] {
            assert_eq!(name(pattern).as_deref(), Some(expected));
        }
        assert_eq!(name(&"%h".repeat(51)).unwrap().len(), 255);
        assert_eq!(name(&"%h".repeat(52)), None);
    }
}
