//! Programs as ELF files: what the headers ask for, checked before anything is mapped.

mod headers;
mod segments;

pub use headers::HEADER;
pub use segments::Segment;

use alloc::vec::Vec;
use elf::abi;
use fallible::OutOfMemory;
use headers::{read_header, read_interpreter, read_program_headers};
use mm::addr::PAGE_SIZE;

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
    /// PT_INTERP: the path of the program that loads this one's libraries and starts it.
    pub interpreter: Option<Vec<u8>>,
    /// PT_GNU_STACK: whether the stack is to be executable.
    pub executable_stack: bool,
}

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
        let mut numbered = headers.iter().enumerate();
        let interpreter = numbered.find(|(_, h)| h.p_type == abi::PT_INTERP);
        let segments = segments::read(&headers, file.size(), target.user_end)?;
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
            interpreter: interpreter
                .map(|(i, h)| read_interpreter(file, i, h))
                .transpose()?,
            segments,
        })
    }

    /// The first linked address, rounded down to the program's alignment.
    pub fn start(&self) -> u64 {
        self.segments[0].address & !(self.align - 1)
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

#[cfg(test)]
mod tests;
