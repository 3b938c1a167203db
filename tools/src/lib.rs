//! What all commands of `run.sh` have in common: builds the kernel and the user programs, makes one
//! bootable file, runs it in QEMU.
//!
//! In floors, each of which names only those above it: [`host`], [`machine`], [`args`], and the
//! commands that need no others. What measures is the crate `measure`, what teaches `course`, what
//! tests, and the program itself, `cli`.
//!
//! Standard output belongs to the guest's console (`run`) or to the results (`test`); the tool's
//! own messages go to standard error.
pub mod args;
pub mod host;
pub mod house;
pub mod machine;
pub mod media;
pub mod proof;
pub mod run;
