//! What an ELF file asks for, checked before anything is mapped.

use super::Refusal;
use crate::arch::pte::Format;
use crate::fs::ExecFile;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use elf::abi;
use elf::endian::LittleEndian;
use elf::file::{Class, FileHeader, parse_ident};
use elf::segment::{ProgramHeader, SegmentTable};
use mm::addr::PAGE_SIZE;
use mm::arch::PteFormat;
use mm::vma::Prot;

/// A loadable segment, as linked.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// Its place in the table of program headers.
    pub index: usize,
    /// Where it is linked.
    pub address: u64,
    /// Bytes in memory.
    pub size: u64,
    /// Where its bytes lie in the file.
    pub offset: u64,
    /// Bytes in the file; the rest is zeros.
    pub file_size: u64,
    /// How it may be used.
    pub prot: Prot,
}

/// What an ELF file asks for.
pub struct Program {
    /// ET_DYN: can be put anywhere.
    pub position_independent: bool,
    /// Where it starts, as linked.
    pub entry: u64,
    /// In the order of addresses; at least one.
    pub segments: Vec<Segment>,
    /// Where the program headers lie in memory, as linked; 0 when no segment holds them.
    pub headers: u64,
    /// How many there are.
    pub header_count: u64,
    /// The largest alignment that a segment wants.
    pub align: u64,
    /// PT_GNU_STACK: whether the stack is to be executable.
    pub executable_stack: bool,
}

const HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;
#[cfg(target_arch = "x86_64")]
const MACHINE: u16 = abi::EM_X86_64;
#[cfg(target_arch = "aarch64")]
const MACHINE: u16 = abi::EM_AARCH64;

impl Program {
    /// Reads and checks the headers.
    pub fn read(file: &ExecFile) -> Result<Self, Refusal> {
        let header = read_header(file)?;
        let headers = read_program_headers(file, &header)?;
        if let Some(interpreter) = headers.iter().find(|h| h.p_type == abi::PT_INTERP) {
            return Err(Refusal::Interpreter(read_interpreter(file, interpreter)));
        }
        let segments = segments(&headers, file.len())?;
        let covers =
            |s: &&Segment| s.offset <= header.e_phoff && header.e_phoff < s.offset + s.file_size;
        let in_memory = segments
            .iter()
            .find(covers)
            .map_or(0, |s| s.address + (header.e_phoff - s.offset));
        let stack = headers.iter().find(|h| h.p_type == abi::PT_GNU_STACK);
        let loads = headers.iter().filter(|h| h.p_type == abi::PT_LOAD);
        Ok(Self {
            position_independent: header.e_type == abi::ET_DYN,
            entry: header.e_entry,
            headers: in_memory,
            header_count: u64::from(header.e_phnum),
            align: loads
                .map(|h| h.p_align)
                .filter(|a| a.is_power_of_two())
                .max()
                .unwrap_or(0)
                .max(PAGE_SIZE),
            // Without a word about it, Linux makes it executable on x86_64 only.
            executable_stack: stack
                .map_or(cfg!(target_arch = "x86_64"), |h| h.p_flags & abi::PF_X != 0),
            segments,
        })
    }

    /// One past the last linked address.
    pub fn end(&self) -> u64 {
        self.segments
            .iter()
            .map(|s| s.address + s.size)
            .max()
            .unwrap_or(0)
    }
}

fn read_header(file: &ExecFile) -> Result<FileHeader<LittleEndian>, Refusal> {
    let mut bytes = [0; HEADER];
    let len = file.read_at(0, &mut bytes);
    if len < 4 || bytes[..4] != [0x7f, b'E', b'L', b'F'] {
        return Err(Refusal::NotElf);
    }
    if len < HEADER {
        return Err(Refusal::Headers("the file ends inside the ELF header"));
    }
    let ident = parse_ident::<LittleEndian>(&bytes[..16]).map_err(|_| {
        Refusal::Headers("its identification is not that of a little-endian program")
    })?;
    let machine = u16::from_le_bytes([bytes[18], bytes[19]]);
    if machine != MACHINE || ident.1 != Class::ELF64 {
        return Err(Refusal::Machine(machine));
    }
    let header = FileHeader::parse_tail(ident, &bytes[16..])
        .map_err(|_| Refusal::Headers("the ELF header"))?;
    match header.e_type {
        abi::ET_EXEC | abi::ET_DYN => Ok(header),
        _ => Err(Refusal::Headers(
            "it is neither an executable nor position-independent",
        )),
    }
}

fn read_program_headers(
    file: &ExecFile,
    header: &FileHeader<LittleEndian>,
) -> Result<Vec<ProgramHeader>, Refusal> {
    if usize::from(header.e_phentsize) != PROGRAM_HEADER || header.e_phnum == 0 {
        return Err(Refusal::Headers("there are no program headers"));
    }
    let size = usize::from(header.e_phnum) * PROGRAM_HEADER;
    if size > 65536 {
        return Err(Refusal::Headers("there are too many program headers"));
    }
    let mut bytes = fallible::filled(0, size)?;
    if file.read_at(header.e_phoff, &mut bytes) < size {
        return Err(Refusal::Headers("the file ends inside the program headers"));
    }
    let table = SegmentTable::new(LittleEndian, Class::ELF64, &bytes);
    Ok(fallible::collect(table.iter())?)
}

fn read_interpreter(file: &ExecFile, header: &ProgramHeader) -> String {
    let mut bytes = vec![0; header.p_filesz.min(256) as usize];
    let len = file.read_at(header.p_offset, &mut bytes);
    let end = bytes[..len].iter().position(|b| *b == 0).unwrap_or(len);
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// The segments to load, each checked, in the order of addresses.
fn segments(headers: &[ProgramHeader], file_len: u64) -> Result<Vec<Segment>, Refusal> {
    let loads = headers
        .iter()
        .enumerate()
        .filter(|(_, h)| h.p_type == abi::PT_LOAD && h.p_memsz > 0);
    let mut segments = Vec::new();
    for (i, h) in loads {
        fallible::push(&mut segments, segment(i, h, file_len)?)?;
    }
    segments.sort_unstable_by_key(|s| s.address);
    for pair in segments.windows(2) {
        if pair[0].address + pair[0].size > pair[1].address {
            return Err(Refusal::Overlap(pair[0].index, pair[1].index));
        }
    }
    if segments.is_empty() {
        return Err(Refusal::Headers("there is no segment to load"));
    }
    Ok(segments)
}

fn segment(index: usize, header: &ProgramHeader, file_len: u64) -> Result<Segment, Refusal> {
    let end = header.p_vaddr.checked_add(header.p_memsz);
    if end.is_none_or(|end| end > Format::USER_END.0) {
        return Err(Refusal::OutsideUser(index, header.p_vaddr));
    }
    if header.p_filesz > header.p_memsz {
        return Err(Refusal::Headers(
            "a segment is larger in the file than in memory",
        ));
    }
    if header.p_vaddr % PAGE_SIZE != header.p_offset % PAGE_SIZE {
        return Err(Refusal::Headers(
            "a segment's address and file offset differ within the page",
        ));
    }
    match header.p_offset.checked_add(header.p_filesz) {
        Some(end) if end <= file_len => {}
        end => {
            return Err(Refusal::Truncated {
                segment: index,
                end: end.unwrap_or(u64::MAX),
                len: file_len,
            });
        }
    }
    let allowed = |bit, prot| {
        if header.p_flags & bit != 0 {
            prot
        } else {
            Prot::empty()
        }
    };
    Ok(Segment {
        index,
        address: header.p_vaddr,
        size: header.p_memsz,
        offset: header.p_offset,
        file_size: header.p_filesz,
        prot: allowed(abi::PF_R, Prot::READ)
            | allowed(abi::PF_W, Prot::WRITE)
            | allowed(abi::PF_X, Prot::EXEC),
    })
}
