//! The tree of files: inodes, mounts, the walk along a path, and names made and removed.

pub mod climbed;
pub mod clock;
pub mod content;
pub mod context;
pub mod initramfs;
pub mod inode;
pub mod mount;
pub mod mounts;
pub mod names;
pub mod node;
pub mod path;
pub mod place;
pub mod quota;
pub mod types;
