//! /proc, /sys and debugfs: this floor reads every other one, and none reads it.

mod debug;
mod proc;
mod sys;

use crate::base::above::Above;
use crate::fs::kinds::pseudo_tree::Tree;
use crate::fs::tree::inode::FileSystem;
use crate::fs::tree::types::Views;
use alloc::sync::Arc;
use spin::Once;

/// A file system that is built at its first mount; every mount shows the same one.
struct View {
    /// Its name in /proc/filesystems.
    name: &'static str,
    /// Its f_type in statfs(2).
    magic: u32,
    tree: fn() -> Tree,
    built: Once<Arc<FileSystem>>,
}

impl View {
    const fn new(name: &'static str, magic: u32, tree: fn() -> Tree) -> Self {
        View {
            name,
            magic,
            tree,
            built: Once::new(),
        }
    }
}

static VIEWS: [View; 3] = [
    View::new("proc", 0x9fa0, proc::tree),
    View::new("sysfs", 0x6265_6572, sys::tree),
    View::new("debugfs", 0x6462_6720, debug::tree),
];

impl Views for Above {
    fn file_system(name: &[u8]) -> Option<Arc<FileSystem>> {
        let view = VIEWS.iter().find(|view| view.name.as_bytes() == name)?;
        let build = || (view.tree)().file_system(view.name, view.magic);
        Some(view.built.call_once(build).clone())
    }
}
