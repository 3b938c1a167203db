//! Reading the ELF header, the program headers and the name of an interpreter.

use super::{Bytes, Flaw};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use elf::abi;
use elf::endian::LittleEndian;
use elf::file::{Class, FileHeader, parse_ident};
use elf::segment::{ProgramHeader, SegmentTable};

/// Bytes of an ELF header.
pub(super) const HEADER: usize = 64;
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

pub(super) fn read_interpreter(file: &impl Bytes, header: &ProgramHeader) -> String {
    let mut bytes = vec![0; header.p_filesz.min(256) as usize];
    let len = file.read_at(header.p_offset, &mut bytes);
    let end = bytes[..len].iter().position(|b| *b == 0).unwrap_or(len);
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
