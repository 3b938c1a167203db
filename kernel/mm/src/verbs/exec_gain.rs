//! Memory-deny-write-execute: a process that has asked for it (prctl(2), PR_SET_MDWE) makes nothing
//! executable that is or was writable.

use crate::arch::Machine;
use crate::space::{AddressSpace, Error, Inner, Mdwe, Result};
use crate::vma::Prot;

impl<M: Machine> AddressSpace<M> {
    /// What the process refuses itself.
    pub fn mdwe(&self) -> Mdwe {
        self.lock().mdwe
    }

    /// PR_SET_MDWE: for later calls; what is mapped stays. EINVAL: NO_INHERIT alone; EPERM: it
    /// would take something back.
    pub fn set_mdwe(&self, mdwe: Mdwe) -> Result {
        if mdwe == Mdwe::NO_INHERIT {
            return Err(Error::Inval);
        }
        let mut inner = self.lock();
        if !inner.mdwe.is_empty() && inner.mdwe != mdwe {
            return Err(Error::Perm);
        }
        inner.mdwe = mdwe;
        Ok(())
    }

    /// Takes over what a child, or the next program, inherits of `other`'s.
    pub fn inherit_mdwe(&self, other: &Self) {
        let inherited = other.mdwe().inherited();
        self.lock().mdwe = inherited;
    }
}

impl Mdwe {
    /// What a child or the next program has of it.
    pub(super) fn inherited(self) -> Self {
        match self.contains(Mdwe::NO_INHERIT) {
            true => Mdwe::empty(),
            false => self,
        }
    }
}

impl<M: Machine> Inner<M> {
    /// EACCES if a protection that was `old` may not become `new`; of a new mapping both are the
    /// same.
    #[inline]
    pub(super) fn check_exec_gain(&self, old: Prot, new: Prot) -> Result {
        let gains = new.contains(Prot::WRITE) || !old.contains(Prot::EXEC);
        match new.contains(Prot::EXEC) && gains && !self.mdwe.is_empty() {
            true => Err(Error::Acces),
            false => Ok(()),
        }
    }
}
