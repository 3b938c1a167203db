//! An initramfs: cpio archives one after another, each plain or compressed, with zeros between
//! them.

use crate::cpio::{self, Failure, Unpack};
use crate::stream::{Gzip, Stream, Zstd};
use alloc::string::String;
use core::fmt;

/// What is wrong with an initramfs.
#[derive(Debug, PartialEq, Eq)]
pub struct Error {
    /// Where the archive (or compressed part) starts that has the fault, in bytes from the
    /// initramfs's start.
    pub part: u64,
    /// "cpio", "gzip" or "zstd".
    pub format: &'static str,
    /// What and where inside the part.
    pub failure: Failure,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure {
            what,
            offset,
            member,
        } = &self.failure;
        write!(
            f,
            "{what}; at offset {offset} of the {} part at offset {}",
            self.format, self.part
        )?;
        match member {
            Some(name) => write!(f, ", member \"{name}\""),
            None => Ok(()),
        }
    }
}

/// Unpacks everything in `bytes`.
pub fn unpack(bytes: &[u8], unpack: &mut dyn Unpack) -> Result<(), Error> {
    let mut rest = bytes;
    loop {
        let zeros = rest.iter().take_while(|b| **b == 0).count();
        rest = &rest[zeros..];
        if rest.is_empty() {
            return Ok(());
        }
        let part = (bytes.len() - rest.len()) as u64;
        let format = format_of(rest);
        rest = part_of(rest, format, unpack).map_err(|failure| Error {
            part,
            format,
            failure,
        })?;
    }
}

fn format_of(bytes: &[u8]) -> &'static str {
    match bytes {
        [0x1f, 0x8b, ..] => "gzip",
        [0x28, 0xb5, 0x2f, 0xfd, ..] => "zstd",
        _ => "cpio",
    }
}

/// Unpacks the part at the start of `bytes`; what follows it.
fn part_of<'a>(
    mut bytes: &'a [u8],
    format: &str,
    unpack: &mut dyn Unpack,
) -> Result<&'a [u8], Failure> {
    match format {
        "gzip" => {
            let mut stream = Gzip::new(bytes).map_err(at_start)?;
            every_archive(&mut stream, unpack)?;
            Ok(stream.rest())
        }
        "zstd" => {
            let mut stream = Zstd::new(bytes).map_err(at_start)?;
            every_archive(&mut stream, unpack)?;
            Ok(stream.rest())
        }
        _ => {
            // One archive only: a compressed part may follow it.
            cpio::read(&mut bytes, &mut 0, unpack)?;
            Ok(bytes)
        }
    }
}

fn every_archive(stream: &mut dyn Stream, unpack: &mut dyn Unpack) -> Result<(), Failure> {
    let mut offset = 0;
    while cpio::read(stream, &mut offset, unpack)? {}
    Ok(())
}

fn at_start(what: String) -> Failure {
    Failure {
        what,
        offset: 0,
        member: None,
    }
}
