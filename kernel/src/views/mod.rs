//! /proc and /sys: they read everything, and nothing below reads them.

mod proc;
mod sys;

use crate::base::above::Above;
use crate::fs::tree::mount::FileSystem;
use crate::fs::tree::types::Views;
use alloc::sync::Arc;

impl Views for Above {
    fn file_system(kind: &[u8]) -> Option<Arc<FileSystem>> {
        match kind {
            b"proc" => Some(proc::file_system()),
            b"sysfs" => Some(sys::file_system()),
            _ => None,
        }
    }
}
