#![allow(missing_docs)]
//! SKELETON: from hardware.
/// What the instruction did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access { Read, Write, Exec }
/// Who did it: user mode, or the kernel in user memory (uaccess).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode { User, Kernel }
/// What became of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution { /// Go on: repeat the instruction.
    Done, /// SIGSEGV, SEGV_MAPERR.
    NotMapped, /// SIGSEGV, SEGV_ACCERR.
    Denied, /// SIGBUS, BUS_ADRERR: past the end of the object.
    Bus, /// No memory: the OOM killer's business.
    NoMem }
