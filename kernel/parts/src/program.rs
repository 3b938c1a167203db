//! What an ELF file asks for, checked before anything is mapped.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use elf::abi;
use elf::endian::LittleEndian;
use elf::file::{Class, FileHeader, parse_ident};
use elf::segment::{ProgramHeader, SegmentTable};
use fallible::OutOfMemory;
use mm::addr::PAGE_SIZE;
use mm::vma::Prot;

/// A loadable segment, as linked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
#[derive(Debug)]
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

/// The bytes of a program.
pub trait Bytes {
    /// Copies bytes out, from `offset` on; how many there were.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> usize;
    /// How many there are.
    fn size(&self) -> u64;
}

/// What programs have to be made for.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// e_machine.
    pub machine: u16,
    /// One past the highest address of user mode.
    pub user_end: u64,
    /// Whether the stack is executable where a program says nothing about it.
    pub executable_stack: bool,
}

/// What is wrong with a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Flaw {
    /// It is not ELF.
    NotElf,
    /// It is for another machine (its e_machine).
    Machine(u16),
    /// It names an interpreter (PT_INTERP), and programs here are static.
    Interpreter(String),
    /// The file ends before the segment does.
    Truncated {
        /// Which one, by its place in the table.
        segment: usize,
        /// Where it ends, in bytes.
        end: u64,
        /// How long the file is.
        len: u64,
    },
    /// Two segments claim the same addresses.
    Overlap(usize, usize),
    /// A segment with an address that is not user space.
    OutsideUser(usize, u64),
    /// Something else in the headers.
    Headers(&'static str),
    /// No memory to look at it.
    OutOfMemory,
}

impl From<OutOfMemory> for Flaw {
    fn from(_: OutOfMemory) -> Flaw {
        Flaw::OutOfMemory
    }
}

impl Program {
    /// Reads and checks the headers.
    pub fn read(file: &impl Bytes, target: &Target) -> Result<Self, Flaw> {
        let header = read_header(file, target.machine)?;
        let headers = read_program_headers(file, &header)?;
        if let Some(interpreter) = headers.iter().find(|h| h.p_type == abi::PT_INTERP) {
            return Err(Flaw::Interpreter(read_interpreter(file, interpreter)));
        }
        let segments = segments(&headers, file.size(), target.user_end)?;
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
            executable_stack: stack.map_or(target.executable_stack, |h| h.p_flags & abi::PF_X != 0),
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

fn read_header(file: &impl Bytes, ours: u16) -> Result<FileHeader<LittleEndian>, Flaw> {
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

fn read_program_headers(
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

fn read_interpreter(file: &impl Bytes, header: &ProgramHeader) -> String {
    let mut bytes = vec![0; header.p_filesz.min(256) as usize];
    let len = file.read_at(header.p_offset, &mut bytes);
    let end = bytes[..len].iter().position(|b| *b == 0).unwrap_or(len);
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// The segments to load, each checked, in the order of addresses.
fn segments(headers: &[ProgramHeader], file_len: u64, user_end: u64) -> Result<Vec<Segment>, Flaw> {
    let loads = headers
        .iter()
        .enumerate()
        .filter(|(_, h)| h.p_type == abi::PT_LOAD && h.p_memsz > 0);
    let mut segments = Vec::new();
    for (i, h) in loads {
        fallible::push(&mut segments, segment(i, h, file_len, user_end)?)?;
    }
    segments.sort_unstable_by_key(|s| s.address);
    for pair in segments.windows(2) {
        if pair[0].address + pair[0].size > pair[1].address {
            return Err(Flaw::Overlap(pair[0].index, pair[1].index));
        }
    }
    if segments.is_empty() {
        return Err(Flaw::Headers("there is no segment to load"));
    }
    Ok(segments)
}

fn segment(
    index: usize,
    header: &ProgramHeader,
    file_len: u64,
    user_end: u64,
) -> Result<Segment, Flaw> {
    let end = header.p_vaddr.checked_add(header.p_memsz);
    if end.is_none_or(|end| end > user_end) {
        return Err(Flaw::OutsideUser(index, header.p_vaddr));
    }
    if header.p_filesz > header.p_memsz {
        return Err(Flaw::Headers(
            "a segment is larger in the file than in memory",
        ));
    }
    if header.p_vaddr % PAGE_SIZE != header.p_offset % PAGE_SIZE {
        return Err(Flaw::Headers(
            "a segment's address and file offset differ within the page",
        ));
    }
    match header.p_offset.checked_add(header.p_filesz) {
        Some(end) if end <= file_len => {}
        end => {
            return Err(Flaw::Truncated {
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

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: Target = Target {
        machine: abi::EM_X86_64,
        user_end: 1 << 47,
        executable_stack: false,
    };

    impl Bytes for Vec<u8> {
        fn read_at(&self, offset: u64, into: &mut [u8]) -> usize {
            let from = (offset as usize).min(self.len());
            let n = into.len().min(self.len() - from);
            into[..n].copy_from_slice(&self[from..from + n]);
            n
        }
        fn size(&self) -> u64 {
            self.len() as u64
        }
    }

    /// p_type, p_flags, p_offset, p_vaddr, p_filesz, p_memsz.
    type Header = (u32, u32, u64, u64, u64, u64);
    const TEXT: Header = (abi::PT_LOAD, 5, 0, 0x40_0000, 0x200, 0x200);
    const DATA: Header = (abi::PT_LOAD, 6, 0x200, 0x40_1200, 0x100, 0x3000);

    /// A program of 0x1000 bytes with these headers behind the ELF header.
    fn program(headers: &[Header]) -> Vec<u8> {
        let mut bytes = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0];
        bytes.resize(16, 0);
        for half in [abi::ET_EXEC, abi::EM_X86_64, 1, 0] {
            bytes.extend(half.to_le_bytes());
        }
        for word in [0x40_0100u64, HEADER as u64, 0] {
            bytes.extend(word.to_le_bytes());
        }
        for half in [0, 0, 64, 56, headers.len() as u16, 0, 0, 0u16] {
            bytes.extend(half.to_le_bytes());
        }
        for (kind, flags, offset, address, in_file, in_memory) in headers {
            bytes.extend(kind.to_le_bytes());
            bytes.extend(flags.to_le_bytes());
            for word in [*offset, *address, *address, *in_file, *in_memory, 0x1000] {
                bytes.extend(word.to_le_bytes());
            }
        }
        bytes.resize(0x1000, 0);
        bytes
    }

    fn flaw(headers: &[Header]) -> Flaw {
        Program::read(&program(headers), &TARGET).expect_err("it is refused")
    }

    #[test]
    fn segments_come_in_the_order_of_addresses() {
        let read = Program::read(&program(&[DATA, TEXT]), &TARGET).expect("a good program");
        let places: Vec<_> = read.segments.iter().map(|s| (s.index, s.address)).collect();
        assert_eq!(places, [(1, 0x40_0000), (0, 0x40_1200)]);
        assert_eq!(read.segments[0].prot, Prot::READ | Prot::EXEC);
        assert_eq!((read.entry, read.end()), (0x40_0100, 0x40_4200));
        assert_eq!((read.headers, read.header_count), (0x40_0040, 2));
        assert!(!read.position_independent && !read.executable_stack);
    }

    #[test]
    fn the_stack_is_as_the_program_or_the_machine_says() {
        let stack = |flags| (abi::PT_GNU_STACK, flags, 0, 0, 0, 0);
        for (headers, machine, wanted) in [
            (&[TEXT][..], true, true),
            (&[TEXT], false, false),
            (&[TEXT, stack(7)], false, true),
            (&[TEXT, stack(6)], true, false),
        ] {
            let executable_stack = machine;
            let target = Target {
                executable_stack,
                ..TARGET
            };
            let read = Program::read(&program(headers), &target).expect("a good program");
            assert_eq!(read.executable_stack, wanted);
        }
    }

    #[test]
    fn bad_segments_are_refused_each_with_its_reason() {
        let truncated = |end| Flaw::Truncated {
            segment: 0,
            end,
            len: 0x1000,
        };
        let of = |change: fn(&mut Header)| {
            let mut header = TEXT;
            change(&mut header);
            flaw(&[header])
        };
        assert_eq!(of(|h| (h.4, h.5) = (0x1001, 0x1001)), truncated(0x1001));
        assert_eq!(
            of(|h| h.2 = u64::MAX - 0xfff),
            truncated(u64::MAX - 0xfff + 0x200)
        );
        assert_eq!(of(|h| h.3 = 1 << 47), Flaw::OutsideUser(0, 1 << 47));
        assert_eq!(of(|h| h.5 = u64::MAX), Flaw::OutsideUser(0, 0x40_0000));
        assert!(matches!(of(|h| h.5 = 0x100), Flaw::Headers(_)));
        assert!(matches!(of(|h| h.3 += 8), Flaw::Headers(_)));
        assert!(matches!(flaw(&[]), Flaw::Headers(_)));
        let inside = (abi::PT_LOAD, 6, 0x100, 0x40_0100, 0x10, 0x10);
        assert_eq!(flaw(&[inside, TEXT]), Flaw::Overlap(1, 0));
    }

    #[test]
    fn what_is_no_program_for_this_machine() {
        let read = |bytes: Vec<u8>| Program::read(&bytes, &TARGET).expect_err("it is refused");
        assert_eq!(read(Vec::new()), Flaw::NotElf);
        assert_eq!(read(b"#!/bin/sh".to_vec()), Flaw::NotElf);
        assert!(matches!(
            read(program(&[TEXT])[..63].to_vec()),
            Flaw::Headers(_)
        ));
        let mut other = program(&[TEXT]);
        other[18] = abi::EM_AARCH64 as u8;
        assert_eq!(read(other), Flaw::Machine(abi::EM_AARCH64));
        let mut object = program(&[TEXT]);
        object[16] = abi::ET_REL as u8;
        assert!(matches!(read(object), Flaw::Headers(_)));
        let mut dynamic = program(&[TEXT, (abi::PT_INTERP, 4, 0x800, 0, 8, 8)]);
        dynamic[0x800..0x807].copy_from_slice(b"/ld.so\0");
        assert_eq!(read(dynamic), Flaw::Interpreter("/ld.so".into()));
    }
}
