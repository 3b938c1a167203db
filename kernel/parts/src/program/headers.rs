//! Reading the ELF header, the program headers and the name of an interpreter.

use super::{Bytes, Flaw};
use alloc::vec::Vec;
use elf::abi;
use elf::endian::LittleEndian;
use elf::file::{Class, FileHeader, parse_ident};
use elf::segment::{ProgramHeader, SegmentTable};

/// Bytes of an ELF header.
pub const HEADER: usize = 64;
/// PATH_MAX, with the NUL.
const MAX_PATH: u64 = 4096;
/// Bytes of a program header.
const PROGRAM_HEADER: usize = 56;

pub(super) fn read_header(file: &impl Bytes, ours: u16) -> Result<FileHeader<LittleEndian>, Flaw> {
    let mut bytes = [0; HEADER];
    let len = file.read_at(0, &mut bytes);
    if len < 4 || bytes[..4] != [0x7f, b'E', b'L', b'F'] {
        return Err(Flaw::NotElf);
    }
    if len < HEADER {
        return Err(Flaw::Headers("the file ends inside the ELF header"));
    }
    let ident = parse_ident::<LittleEndian>(&bytes[..16])
        .map_err(|_| Flaw::Headers("its identification is not that of a little-endian program"))?;
    let machine = u16::from_le_bytes([bytes[18], bytes[19]]);
    if machine != ours || ident.1 != Class::ELF64 {
        return Err(Flaw::Machine(machine));
    }
    let header =
        FileHeader::parse_tail(ident, &bytes[16..]).map_err(|_| Flaw::Headers("the ELF header"))?;
    match header.e_type {
        abi::ET_EXEC | abi::ET_DYN => Ok(header),
        _ => Err(Flaw::Headers(
            "it is neither an executable nor position-independent",
        )),
    }
}

pub(super) fn read_program_headers(
    file: &impl Bytes,
    header: &FileHeader<LittleEndian>,
) -> Result<Vec<ProgramHeader>, Flaw> {
    if usize::from(header.e_phentsize) != PROGRAM_HEADER || header.e_phnum == 0 {
        return Err(Flaw::Headers("there are no program headers"));
    }
    let size = usize::from(header.e_phnum) * PROGRAM_HEADER;
    if size > 65536 {
        return Err(Flaw::Headers("there are too many program headers"));
    }
    let mut bytes = fallible::filled(0, size)?;
    if file.read_at(header.e_phoff, &mut bytes) < size {
        return Err(Flaw::Headers("the file ends inside the program headers"));
    }
    let table = SegmentTable::new(LittleEndian, Class::ELF64, &bytes);
    Ok(fallible::collect(table.iter())?)
}

/// PT_INTERP's name, up to its first NUL. As on Linux it has a byte at least, and a NUL at its end.
pub(super) fn read_interpreter(
    file: &impl Bytes,
    segment: usize,
    header: &ProgramHeader,
) -> Result<Vec<u8>, Flaw> {
    if !(2..=MAX_PATH).contains(&header.p_filesz) {
        return Err(Flaw::Headers(
            "the name of its interpreter has no usable length",
        ));
    }
    let mut name = fallible::filled(0, header.p_filesz as usize)?;
    if file.read_at(header.p_offset, &mut name) < name.len() {
        return Err(Flaw::Truncated {
            segment,
            end: header.p_offset.saturating_add(header.p_filesz),
            len: file.size(),
        });
    }
    if name.last() != Some(&0) {
        return Err(Flaw::Headers("the name of its interpreter does not end"));
    }
    let end = name.iter().position(|b| *b == 0);
    name.truncate(end.unwrap_or_default());
    Ok(name)
}
