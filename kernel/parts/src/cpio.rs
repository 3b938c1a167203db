//! The "newc" cpio format, cpio(5): what an initramfs is made of.

use crate::stream::Stream;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// One file of an archive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Member {
    /// Path without leading slashes.
    pub name: Vec<u8>,
    /// st_mode: type and permissions.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// How many members are the same file (hard links); the last one carries the data.
    pub links: u32,
    /// Seconds since 1970.
    pub modified: u32,
    /// Bytes of data.
    pub size: u32,
    /// Identity for hard links: (device major, minor, inode).
    pub identity: (u32, u32, u32),
    /// Major and minor number of a device node.
    pub device: (u32, u32),
}

/// Where the members of an archive go. Refusals are said in words ("no memory").
pub trait Unpack {
    /// A member begins; its data, if any, follows.
    fn member(&mut self, member: &Member) -> Result<(), String>;
    /// The next bytes of the member.
    fn data(&mut self, bytes: &[u8]) -> Result<(), String>;
    /// The member is complete.
    fn end(&mut self) -> Result<(), String>;
}

/// What is wrong, and where.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    /// In words.
    pub what: String,
    /// Byte offset in the (decompressed) stream where the reader stood.
    pub offset: u64,
    /// The member that was being read, if its name was known.
    pub member: Option<String>,
}

const HEADER: usize = 110;
const NAME_MAX: usize = 4096;
const TRAILER: &[u8] = b"TRAILER!!!";

/// Reads one archive, up to its trailer, after any zero bytes before it. `false` when there was
/// none: only zeros up to the end.
pub fn read(
    input: &mut dyn Stream,
    offset: &mut u64,
    unpack: &mut dyn Unpack,
) -> Result<bool, Failure> {
    let start = *offset;
    let mut reader = Reader {
        input,
        offset,
        start,
        member: None,
    };
    reader.archive(unpack).map_err(|what| Failure {
        what,
        offset: *reader.offset,
        member: reader.member.take(),
    })
}

struct Reader<'a> {
    input: &'a mut dyn Stream,
    offset: &'a mut u64,
    /// Where the archive starts: padding counts from here.
    start: u64,
    member: Option<String>,
}

impl Reader<'_> {
    fn archive(&mut self, unpack: &mut dyn Unpack) -> Result<bool, String> {
        let Some(first) = self.skip_zeros()? else {
            return Ok(false);
        };
        self.start = *self.offset - 1;
        let mut header = [first; HEADER];
        // A short file that is no archive at all is called that, not truncated.
        self.exactly(&mut header[1..6])?;
        check_magic(&header)?;
        self.exactly(&mut header[6..])?;
        loop {
            let (mut member, name_len) = parse_header(&header)?;
            member.name = self.name(name_len)?;
            self.member = Some(String::from_utf8_lossy(&member.name).into_owned());
            self.skip_padding()?;
            if member.name == TRAILER {
                return Ok(true);
            }
            self.body(&member, unpack)?;
            self.skip_padding()?;
            self.member = None;
            self.exactly(&mut header)?;
        }
    }

    fn body(&mut self, member: &Member, unpack: &mut dyn Unpack) -> Result<(), String> {
        unpack.member(member)?;
        let mut left = member.size as usize;
        while left > 0 {
            let piece = self.input.next(left)?;
            if piece.is_empty() {
                return Err(format!(
                    "the archive is truncated: {left} bytes are missing"
                ));
            }
            left -= piece.len();
            *self.offset += piece.len() as u64;
            unpack.data(piece)?;
        }
        unpack.end()
    }

    fn name(&mut self, len: usize) -> Result<Vec<u8>, String> {
        if len == 0 || len > NAME_MAX {
            return Err(format!("a name of {len} bytes"));
        }
        let mut name = alloc::vec![0; len];
        self.exactly(&mut name)?;
        if name.pop() != Some(0) {
            return Err("a name does not end with NUL".into());
        }
        let slashes = name.iter().take_while(|b| **b == b'/').count();
        name.drain(..slashes);
        Ok(name)
    }

    fn exactly(&mut self, mut into: &mut [u8]) -> Result<(), String> {
        while !into.is_empty() {
            let piece = self.input.next(into.len())?;
            if piece.is_empty() {
                return Err(format!(
                    "the archive is truncated: {} bytes are missing",
                    into.len()
                ));
            }
            let (filled, rest) = into.split_at_mut(piece.len());
            filled.copy_from_slice(piece);
            *self.offset += filled.len() as u64;
            into = rest;
        }
        Ok(())
    }

    /// Names and data are padded so that what follows is four-byte aligned.
    fn skip_padding(&mut self) -> Result<(), String> {
        let length = *self.offset - self.start;
        let padding = length.next_multiple_of(4) - length;
        self.exactly(&mut [0; 3][..padding as usize])
    }

    /// The first byte that is not zero.
    fn skip_zeros(&mut self) -> Result<Option<u8>, String> {
        loop {
            let byte = self.input.next(1)?.first().copied();
            *self.offset += u64::from(byte.is_some());
            match byte {
                Some(0) => {}
                other => return Ok(other),
            }
        }
    }
}

/// The member but for its name, and the length of the name with its NUL.
fn parse_header(header: &[u8; HEADER]) -> Result<(Member, usize), String> {
    check_magic(header)?;
    let mut fields = [0; 13];
    for (field, digits) in fields.iter_mut().zip(header[6..].chunks_exact(8)) {
        let text = core::str::from_utf8(digits).map_err(|_| "a header field is not hexadecimal")?;
        *field = u32::from_str_radix(text, 16)
            .map_err(|_| format!("a header field reads \"{text}\""))?;
    }
    let [
        ino,
        mode,
        uid,
        gid,
        links,
        modified,
        size,
        major,
        minor,
        rmajor,
        rminor,
        name_len,
        _check,
    ] = fields;
    let member = Member {
        name: Vec::new(),
        mode,
        uid,
        gid,
        links,
        modified,
        size,
        identity: (major, minor, ino),
        device: (rmajor, rminor),
    };
    Ok((member, name_len as usize))
}

fn check_magic(header: &[u8; HEADER]) -> Result<(), String> {
    match &header[..6] {
        b"070701" | b"070702" => Ok(()),
        other => Err(format!(
            "not a newc cpio header: it starts with {other:02x?}"
        )),
    }
}
