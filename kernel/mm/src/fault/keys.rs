//! Protection keys, where hardware does not ask them: in what the kernel does in the place of the
//! running thread, and for a page that is not there yet.

use super::request::{Request, allowed};
use super::{Access, Resolution};
use crate::addr::VirtAddr;
use crate::arch::{Cpu, Machine, PteFormat};
use crate::manager::Mm;
use crate::space::Locked;
use crate::vma::{Prot, Vma};

/// Whether the running thread, in its own space, may not use the VMA's pages as data: its register
/// refuses the key. Hardware asks that itself; it is for what the kernel does in its place.
#[cold]
pub(crate) fn refused_by_key<M: Machine>(mm: &Mm<M>, vma: &Vma<M>, access: Access) -> bool {
    let cpu = mm.machine().cpu();
    cpu.refuses_key(vma.prot.key(), access == Access::Write)
}

/// Whether an access that the running thread has tried would be refused by its key if the page were
/// there: it gets none. What is executed has no key.
#[inline(always)]
fn refused_if_there<M: Machine>(mm: &Mm<M>, vma: &Vma<M>, access: Access) -> bool {
    M::Pte::KEYS > 1
        && vma.prot.intersects(Prot::KEY)
        && access != Access::Exec
        && refused_by_key(mm, vma, access)
}

/// Whether a page is to be made for the access.
#[inline(always)]
pub(super) fn may_try<M: Machine>(mm: &Mm<M>, vma: &Vma<M>, request: &Request) -> bool {
    let Request { access, force, .. } = *request;
    allowed(vma, access, force) && !(request.tried && refused_if_there(mm, vma, access))
}

impl<M: Machine> Locked<'_, M> {
    /// Whether the running thread may use the page of `addr`, as far as its keys say.
    pub(super) fn check_key(&self, addr: VirtAddr, access: Access) -> Result<(), Resolution> {
        let vma = self.vmas.at(addr);
        match vma.is_some_and(|vma| refused_by_key(self.mm(), vma, access)) {
            true => Err(Resolution::Denied),
            false => Ok(()),
        }
    }
}
