#![allow(missing_docs)]
//! SKELETON: a memory object: pages by index that files, shared anonymous memory and memfds are made of (Linux: address_space).
use crate::arch::Machine;
use crate::manager::{Mm, OutOfMemory};
use alloc::sync::Arc;
use core::marker::PhantomData;

/// Sparse pages by index; a hole reads as zeroes.
pub struct Object<M: Machine>(PhantomData<M>);
impl<M: Machine> Object<M> {
    pub fn new(mm: &Arc<Mm<M>>) -> Arc<Self> { let _ = mm; todo!() }
    /// Size in bytes; a fault at or past the page that holds its end is SIGBUS.
    pub fn len(&self) -> u64 { todo!() }
    /// Changes the size; pages past it are dropped (the caller zaps mappings with AddressSpace::zap_object), the tail of the last page is zeroed.
    pub fn set_len(&self, len: u64) { let _ = len; todo!() }
    /// Copies out what is there from `offset`, up to the end; returns how many bytes.
    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> usize { let _ = (offset, into); todo!() }
    /// Copies in, growing the object as needed.
    pub fn write_at(&self, offset: u64, from: &[u8]) -> Result<(), OutOfMemory> { let _ = (offset, from); todo!() }
    /// Frames that it holds (st_blocks, RSS of tmpfs).
    pub fn pages(&self) -> u64 { todo!() }
    /// Drops the pages wholly inside the byte range and zeroes the partial ones (FALLOC_FL_PUNCH_HOLE).
    pub fn punch(&self, offset: u64, len: u64) { let _ = (offset, len); todo!() }
    /// Allocates the pages of the byte range (fallocate).
    pub fn reserve(&self, offset: u64, len: u64) -> Result<(), OutOfMemory> { let _ = (offset, len); todo!() }
}
