//! pkey_alloc(2) and pkey_free(2); pkey_mprotect(2) is in `protect`.
//!
//! A key is a part of a VMA's protection ([`Prot`]), and so of the attributes of each of its
//! entries: it is written, copied and moved with them. What a key allows is a register of each
//! thread, which the hardware asks.

use crate::addr::VirtAddr;
use crate::arch::{Cpu, Key, Machine, Refused};
use crate::fault::{Access, refused_by_key};
use crate::space::{AddressSpace, Error, Locked, Result};
use crate::vma::Prot;

impl<M: Machine> AddressSpace<M> {
    /// pkey_alloc(2), without the rights: `None` (ENOSPC) if no key is left, or the machine has
    /// none.
    pub fn allocate_key(&self) -> Option<Key> {
        self.lock().keys.allocate()
    }
    /// pkey_free(2). EINVAL: the program does not have the key. Memory that has it keeps it.
    pub fn free_key(&self, key: Key) -> Result {
        match self.lock().keys.free(key) {
            true => Ok(()),
            false => Err(Error::Inval),
        }
    }
    /// The key by which the running thread's register refuses an access to data at `addr`, if it
    /// does.
    pub fn refusing_key(&self, addr: VirtAddr, access: Access) -> Option<Key> {
        let inner = self.lock();
        let vma = inner.vmas.at(addr)?;
        let refused = access != Access::Exec && refused_by_key(inner.mm(), vma, access);
        refused.then_some(vma.prot.key())
    }
    /// The key of the memory at `addr`, for the signal of a refused access; key 0 where none is.
    pub fn key_at(&self, addr: VirtAddr) -> Key {
        let inner = self.lock();
        inner.vmas.at(addr).map_or(Key(0), |vma| vma.prot.key())
    }
}

impl<M: Machine> Locked<'_, M> {
    /// The protection of memory that may only be executed: by a key, whose data the running thread
    /// cannot use from now on. Without keys it can be read, as on every machine without them.
    #[cold]
    #[inline(never)]
    pub(super) fn execute_only(&mut self) -> Prot {
        let Some(key) = self.keys.for_execute_only() else {
            return Prot::EXEC;
        };
        self.mm().machine().cpu().set_key(key, Refused::ACCESS);
        Prot::EXEC.with_key(key)
    }
}
