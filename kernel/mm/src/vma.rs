#![allow(missing_docs)]
//! SKELETON: what the user asked for.
use crate::addr::*;
use crate::arch::Machine;
use crate::object::Object;
use alloc::string::String;
use alloc::sync::Arc;

bitflags::bitflags! {
    /// PROT_*.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
    pub struct Prot: u8 { const READ = 1; const WRITE = 2; const EXEC = 4; }
}
bitflags::bitflags! {
    /// Properties of a VMA (Linux: VM_*).
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
    pub struct VmaFlags: u32 {
        /// MAP_SHARED: writes reach the object.
        const SHARED = 1 << 0;
        /// MAP_GROWSDOWN and the main stack.
        const GROWSDOWN = 1 << 1;
        const LOCKED = 1 << 2;
        const NORESERVE = 1 << 3;
        const DONTFORK = 1 << 4;
        const WIPEONFORK = 1 << 5;
        const DONTDUMP = 1 << 6;
        const HUGEPAGE = 1 << 7;
        const NOHUGEPAGE = 1 << 8;
        /// The brk area, shown as [heap].
        const HEAP = 1 << 9;
        /// The main stack, shown as [stack].
        const STACK = 1 << 10;
        /// The object may not be mapped writable and shared (opened read-only): mprotect(PROT_WRITE) gives EACCES.
        const NO_MAYWRITE = 1 << 11;
    }
}

/// What /proc/PID/maps says about a mapped file.
pub trait MappedFile: Send + Sync {
    /// Path as it is now, with " (deleted)" when it has no name any more.
    fn path(&self) -> String;
    /// (device, inode).
    fn id(&self) -> (u64, u64);
}

/// Where a VMA's pages come from.
pub enum Backing<M: Machine> {
    /// Zeroes; private to the address space and its copies.
    Anon,
    /// An object from page `offset` on: shared (VmaFlags::SHARED) or private (copy on write).
    Object { object: Arc<Object<M>>, offset: u64, file: Option<Arc<dyn MappedFile>> },
}

impl<M: Machine> Clone for Backing<M> {
    fn clone(&self) -> Self { todo!() }
}

/// A virtual memory area.
pub struct Vma<M: Machine> {
    pub range: VirtRange,
    pub prot: Prot,
    pub flags: VmaFlags,
    pub backing: Backing<M>,
}
