//! /proc, proc(5): Linux's paths and formats.

use crate::fs::mount::FileSystem;
use crate::fs::pseudo::Tree;
use alloc::sync::Arc;
use spin::Once;

/// f_type of proc.
const PROC_MAGIC: u32 = 0x9fa0;

/// /proc: one, however often it is mounted.
pub fn file_system() -> Arc<FileSystem> {
    static INSTANCE: Once<Arc<FileSystem>> = Once::new();
    INSTANCE
        .call_once(|| Tree::new(None).file_system("proc", PROC_MAGIC))
        .clone()
}
