//! A stream of bytes to take apart: plain, gzip or zstd.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use miniz_oxide::inflate::stream::{InflateState, inflate};
use miniz_oxide::{DataFormat, MZFlush, MZStatus};
use ruzstd::decoding::StreamingDecoder;
use ruzstd::io::Read;

/// Decompressed bytes are handed on in pieces of at most this many bytes.
const PIECE: usize = 32 << 10;

/// Bytes in order; what is wrong with them is said in words.
pub trait Stream {
    /// The next bytes, at most `at_most` of them; empty only at the end.
    fn next(&mut self, at_most: usize) -> Result<&[u8], String>;
}

/// Plain bytes are handed on without a copy.
impl Stream for &[u8] {
    fn next(&mut self, at_most: usize) -> Result<&[u8], String> {
        let (piece, rest) = self.split_at(at_most.min(self.len()));
        *self = rest;
        Ok(piece)
    }
}

/// Output of a decompressor that was not taken yet.
struct Piece {
    bytes: Vec<u8>,
    taken: usize,
    filled: usize,
}

impl Piece {
    fn new() -> Piece {
        Piece {
            bytes: vec![0; PIECE],
            taken: 0,
            filled: 0,
        }
    }
    fn is_empty(&self) -> bool {
        self.taken == self.filled
    }
    fn take(&mut self, at_most: usize) -> &[u8] {
        let from = self.taken;
        self.taken = self.filled.min(from + at_most);
        &self.bytes[from..self.taken]
    }
}

/// A gzip member (RFC 1952).
pub struct Gzip<'a> {
    rest: &'a [u8],
    state: Box<InflateState>,
    piece: Piece,
    crc: u32,
    len: u32,
    done: bool,
}

impl<'a> Gzip<'a> {
    /// Starts at the member's header.
    pub fn new(bytes: &'a [u8]) -> Result<Self, String> {
        Ok(Gzip {
            rest: &bytes[gzip_header(bytes).ok_or("gzip: the header is damaged")?..],
            state: InflateState::new_boxed(DataFormat::Raw),
            piece: Piece::new(),
            crc: !0,
            len: 0,
            done: false,
        })
    }
    /// What follows the member, once the stream has ended.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
    fn fill(&mut self) -> Result<(), String> {
        while self.piece.is_empty() && !self.done {
            let result = inflate(
                &mut self.state,
                self.rest,
                &mut self.piece.bytes,
                MZFlush::None,
            );
            self.rest = &self.rest[result.bytes_consumed..];
            let written = &self.piece.bytes[..result.bytes_written];
            self.crc = crc32(self.crc, written);
            self.len = self.len.wrapping_add(written.len() as u32);
            (self.piece.taken, self.piece.filled) = (0, result.bytes_written);
            match result.status {
                Ok(MZStatus::StreamEnd) => self.check_trailer()?,
                Ok(_) if result.bytes_consumed + result.bytes_written > 0 => {}
                _ if self.rest.is_empty() => return Err("gzip: the data ends too early".into()),
                _ => return Err("gzip: the data is corrupt".into()),
            }
        }
        Ok(())
    }
    fn check_trailer(&mut self) -> Result<(), String> {
        let (trailer, rest) = self
            .rest
            .split_first_chunk::<8>()
            .ok_or("gzip: the trailer is missing")?;
        let [c0, c1, c2, c3, l0, l1, l2, l3] = *trailer;
        if u32::from_le_bytes([c0, c1, c2, c3]) != !self.crc
            || u32::from_le_bytes([l0, l1, l2, l3]) != self.len
        {
            return Err("gzip: the checksum is wrong".into());
        }
        self.rest = rest;
        self.done = true;
        Ok(())
    }
}

impl Stream for Gzip<'_> {
    fn next(&mut self, at_most: usize) -> Result<&[u8], String> {
        self.fill()?;
        Ok(self.piece.take(at_most))
    }
}

/// The length of a gzip member's header.
fn gzip_header(bytes: &[u8]) -> Option<usize> {
    const HAS_CRC: u8 = 2;
    const HAS_EXTRA: u8 = 4;
    const HAS_NAME: u8 = 8;
    const HAS_COMMENT: u8 = 16;
    let [0x1f, 0x8b, 8, flags, ..] = *bytes else {
        return None;
    };
    let mut at = 10;
    if flags & HAS_EXTRA != 0 {
        at += 2 + usize::from(u16::from_le_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
    }
    for string in [HAS_NAME, HAS_COMMENT] {
        if flags & string != 0 {
            at += bytes.get(at..)?.iter().position(|b| *b == 0)? + 1;
        }
    }
    if flags & HAS_CRC != 0 {
        at += 2;
    }
    (at <= bytes.len()).then_some(at)
}

/// CRC-32 of RFC 1952, a nibble at a time; starts with all ones, its complement is the checksum.
fn crc32(mut crc: u32, bytes: &[u8]) -> u32 {
    const fn table() -> [u32; 256] {
        let mut table = [0; 256];
        let mut i = 0;
        while i < 256 {
            let (mut value, mut bit) = (i as u32, 0);
            while bit < 8 {
                value = if value & 1 != 0 {
                    0xedb8_8320 ^ (value >> 1)
                } else {
                    value >> 1
                };
                bit += 1;
            }
            table[i] = value;
            i += 1;
        }
        table
    }
    static TABLE: [u32; 256] = table();
    for byte in bytes {
        crc = TABLE[usize::from(crc as u8 ^ byte)] ^ (crc >> 8);
    }
    crc
}

/// A zstd frame (RFC 8878).
pub struct Zstd<'a> {
    decoder: StreamingDecoder<&'a [u8], ruzstd::decoding::FrameDecoder>,
    piece: Piece,
}

impl<'a> Zstd<'a> {
    /// Starts at the frame's magic number.
    pub fn new(bytes: &'a [u8]) -> Result<Self, String> {
        let decoder = StreamingDecoder::new(bytes).map_err(|error| format!("zstd: {error}"))?;
        Ok(Zstd {
            decoder,
            piece: Piece::new(),
        })
    }
    /// What follows the frame, once the stream has ended.
    pub fn rest(&self) -> &'a [u8] {
        self.decoder.get_ref()
    }
}

impl Stream for Zstd<'_> {
    fn next(&mut self, at_most: usize) -> Result<&[u8], String> {
        if self.piece.is_empty() {
            let read = self.decoder.read(&mut self.piece.bytes);
            (self.piece.taken, self.piece.filled) =
                (0, read.map_err(|error| format!("zstd: {error}"))?);
        }
        Ok(self.piece.take(at_most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc_of_the_check_string() {
        assert_eq!(!crc32(!0, b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn gzip_header_with_a_name() {
        let bytes = [0x1f, 0x8b, 8, 8, 0, 0, 0, 0, 0, 3, b'x', 0, 9];
        assert_eq!(gzip_header(&bytes), Some(12));
        assert_eq!(gzip_header(&bytes[..11]), None, "a name without its end");
        assert_eq!(gzip_header(b"PK"), None);
    }
}
