//! Reasons why execve(2) refuses a file.

use crate::arch;
use crate::base::errno::Errno;
use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;
use parts::program::Flaw;

/// The reason; [`Refusal::errno`] is what execve returns.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// The file itself, which is no script either.
    Flaw(Flaw),
    /// Another error, with its own number.
    Errno(Errno),
    /// The program's ELF interpreter cannot be used.
    Interpreter(Box<BadInterpreter>),
}

/// An ELF interpreter and what is wrong with it.
#[derive(Clone, Debug)]
pub struct BadInterpreter {
    /// Its path, as the program names it.
    pub path: String,
    /// The reason, which is none about another interpreter.
    pub why: Refusal,
}

impl BadInterpreter {
    /// ELIBBAD for what is no interpreter for this machine, else the error's own number.
    fn errno(&self) -> Errno {
        match self.why {
            Refusal::Errno(errno) => errno,
            _ => Errno::ELIBBAD,
        }
    }
}

impl Refusal {
    /// What execve returns.
    pub fn errno(&self) -> Errno {
        match self {
            Refusal::Errno(errno) => *errno,
            Refusal::Interpreter(bad) => bad.errno(),
            Refusal::Flaw(_) => Errno::ENOEXEC,
        }
    }
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Self {
        Refusal::Errno(errno)
    }
}

impl From<Flaw> for Refusal {
    fn from(flaw: Flaw) -> Self {
        match flaw {
            Flaw::OutOfMemory => Refusal::Errno(Errno::ENOMEM),
            flaw => Refusal::Flaw(flaw),
        }
    }
}

impl From<mm::Error> for Refusal {
    fn from(error: mm::Error) -> Self {
        Refusal::Errno(error.into())
    }
}

impl From<mm::OutOfMemory> for Refusal {
    fn from(error: mm::OutOfMemory) -> Self {
        Refusal::Errno(error.into())
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Flaw(flaw) => say(flaw, f),
            Refusal::Errno(Errno::ENOMEM) => say(&Flaw::OutOfMemory, f),
            Refusal::Errno(errno) => write!(f, "{errno:?}"),
            Refusal::Interpreter(bad) => say_interpreter(bad, f),
        }
    }
}

fn say_interpreter(
    BadInterpreter { path, why }: &BadInterpreter,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    write!(f, "it is a dynamic program and its interpreter {path} ")?;
    match why {
        Refusal::Errno(Errno::ENOENT) => write!(
            f,
            "is missing: pack it and the program's libraries too, or link it with -static"
        ),
        Refusal::Errno(Errno::EACCES) => write!(f, "is not an executable file: chmod +x it"),
        Refusal::Errno(errno) => write!(f, "cannot be read: {errno:?}"),
        why => write!(f, "cannot be used: {why}"),
    }
}

fn say(flaw: &Flaw, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match flaw {
        Flaw::NotElf => write!(f, "it is not an ELF program and not a #! script"),
        Flaw::Machine(machine) => {
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
        Flaw::Truncated { segment, end, len } => {
            write!(
                f,
                "it is truncated: segment {segment} ends at byte {end} of {len}"
            )
        }
        Flaw::Overlap(a, b) => write!(f, "its segments {a} and {b} overlap"),
        Flaw::OutsideUser(segment, address) => {
            write!(
                f,
                "its segment {segment} lies outside user space, at {address:#x}"
            )
        }
        Flaw::Headers(what) => write!(f, "its ELF headers make no sense: {what}"),
        Flaw::OutOfMemory => write!(f, "out of memory; give the machine more (--mem)"),
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
