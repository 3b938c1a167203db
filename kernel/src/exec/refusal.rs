//! Why a file cannot be run.

use crate::arch;
use crate::base::errno::Errno;
use alloc::string::String;
use core::fmt;

/// The reason; [`Refusal::errno`] is what execve returns.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// Neither ELF nor a script.
    NotElf,
    /// ELF, for another machine (its e_machine).
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
    /// Another error, with its own number.
    Errno(Errno),
}

impl Refusal {
    /// What execve returns.
    pub fn errno(&self) -> Errno {
        match self {
            Refusal::Errno(errno) => *errno,
            Refusal::Interpreter(_) => Errno::ENOENT,
            _ => Errno::ENOEXEC,
        }
    }
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Self {
        Refusal::Errno(errno)
    }
}

impl From<mm::space::Error> for Refusal {
    fn from(error: mm::space::Error) -> Self {
        Refusal::Errno(error.into())
    }
}

impl From<mm::manager::OutOfMemory> for Refusal {
    fn from(error: mm::manager::OutOfMemory) -> Self {
        Refusal::Errno(error.into())
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NotElf => write!(f, "it is not an ELF program and not a #! script"),
            Refusal::Machine(machine) => {
                let (theirs, ours) = (machine_name(*machine), arch::cpu::NAME);
                write!(
                    f,
                    "it is a program for {theirs}, this machine is {ours}: build it for {ours}"
                )?;
                match theirs {
                    "x86_64" | "aarch64" => write!(f, ", or run with --arch {theirs}"),
                    _ => Ok(()),
                }
            }
            Refusal::Interpreter(path) => {
                write!(
                    f,
                    "it is a dynamic program and its interpreter {path} is missing: link it with -static"
                )
            }
            Refusal::Truncated { segment, end, len } => {
                write!(
                    f,
                    "it is truncated: segment {segment} ends at byte {end} of {len}"
                )
            }
            Refusal::Overlap(a, b) => write!(f, "its segments {a} and {b} overlap"),
            Refusal::OutsideUser(segment, address) => {
                write!(
                    f,
                    "its segment {segment} lies outside user space, at {address:#x}"
                )
            }
            Refusal::Headers(what) => write!(f, "its ELF headers make no sense: {what}"),
            Refusal::Errno(Errno::ENOMEM) => {
                write!(f, "out of memory; give the machine more (--mem)")
            }
            Refusal::Errno(errno) => write!(f, "{errno:?}"),
        }
    }
}

fn machine_name(machine: u16) -> &'static str {
    match machine {
        elf::abi::EM_X86_64 => "x86_64",
        elf::abi::EM_AARCH64 => "aarch64",
        elf::abi::EM_386 => "i386 (32 bits)",
        elf::abi::EM_ARM => "arm (32 bits)",
        elf::abi::EM_RISCV => "riscv",
        _ => "another machine",
    }
}
