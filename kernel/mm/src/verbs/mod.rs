//! System calls on an address space, and writes to its files in /proc, one per file. Errors are
//! those of the manual pages (mmap(2) and its relatives).

mod advise;
mod age;
mod brk;
mod clear_refs;
mod compact;
mod exec_gain;
mod fork;
mod guard;
mod huge;
mod hwpoison;
mod keys;
mod lock;
mod map;
mod place;
mod protect;
mod read_locked;
mod remap;
mod seal;
mod swapoff;
mod truncate;
mod unmap;
mod userfault;

pub use remap::{Moved, RemapFlags};
pub use userfault::{Content, Filling, Registration};
