//! The parts of the kernel that are pure logic: command line, archives, names in a path, numbers of
//! open files, program headers, address-space layout and stack of a program, signal actions and
//! pending signals, the terminal's line discipline, texts of numbers, the header of a swap area,
//! averages of time in which threads waited. They depend on no machine, no lock and no file system,
//! so they are compiled and tested on the host.

#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod archive;
pub mod aslr;
pub mod cmdline;
pub mod core_file;
pub mod core_name;
pub mod cpio;
pub mod form;
pub mod line;
pub mod path;
pub mod program;
pub mod script;
pub mod signal;
pub mod slots;
pub mod stack;
pub mod stalls;
pub mod stream;
pub mod swap_header;
pub mod text;
