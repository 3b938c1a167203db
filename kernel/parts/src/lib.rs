//! The parts of the kernel that are logic alone: the command line, unpacking an archive, the names
//! in a path, the numbers of open files, what a program's headers ask for, pending signals, the
//! terminal's line discipline, texts of numbers. They know no machine, no lock and no file system,
//! so they are compiled and tested on the host.

#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod archive;
pub mod cmdline;
pub mod cpio;
pub mod form;
pub mod line;
pub mod path;
pub mod program;
pub mod script;
pub mod signal;
pub mod slots;
pub mod stream;
pub mod text;
