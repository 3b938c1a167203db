//! Files: the tree and its file systems, open files, pipes, devices, the terminal.
//!
//! The way of a read: `syscall::files` finds the [`OpenFile`] in the [`FdTable`], which asks its
//! [`FileOps`](open::ops::FileOps); the bytes go through a [`Sink`](open::io::Sink). The way of an
//! open: [`tree::path`] walks from a [`FsContext`], [`open`] makes or finds the file. Locks, in the
//! order of `ranks`: fd table, context, tree, mounts, directory, inode, pipe, terminal.

pub mod boot;
pub mod caller;
pub mod devices;
pub mod kinds;
pub mod open;
pub mod room;
pub mod tree;
pub mod tty;

pub use open::exec::{ExecFile, exec_of, open_exec, open_exec_at};
pub use open::fd::{DirFd, Fd};
pub use open::fdtable::FdTable;
pub use open::file::OpenFile;
pub use open::flags::OpenFlags;
pub use tree::context::FsContext;
