//! Access to another address space's memory through its page tables (exec's setup, /proc/PID/mem).

use super::Access;
use super::request::Request;
use crate::addr::{PAGE_SIZE, PhysAddr, VirtAddr};
use crate::arch::{Machine, PhysMem};
use crate::space::AddressSpace;
use core::ops::Range;

impl<M: Machine> AddressSpace<M> {
    /// Reads through the page tables, faulting pages in as for a user's read; `force` ignores that
    /// a VMA is of PROT_NONE (a debugger's). Returns bytes copied before the first bad page. May
    /// wait for a claim, so the caller holds no lock.
    pub fn read(&self, from: VirtAddr, into: &mut [u8], force: bool) -> usize {
        let mut request = Request::new(from, Access::Read);
        request.force = force;
        self.each_page(request, into.len(), |mem, at, bytes| {
            mem.read(at, &mut into[bytes])
        })
    }

    /// Writes through the page tables, faulting pages in; `force` ignores a read-only VMA (exec's
    /// setup). Returns bytes copied before the first bad page. May wait as [`Self::read`] does.
    pub fn write(&self, to: VirtAddr, from: &[u8], force: bool) -> usize {
        let mut request = Request::new(to, Access::Write);
        request.force = force;
        self.each_page(request, from.len(), |mem, at, bytes| {
            mem.write(at, &from[bytes]);
            if force {
                // A debugger's breakpoint.
                mem.code_changed(at);
            }
        })
    }

    /// Calls `f` with the address and the index range of each page's part of `len` bytes.
    fn each_page(
        &self,
        mut request: Request,
        len: usize,
        mut f: impl FnMut(&M::Mem, PhysAddr, Range<usize>),
    ) -> usize {
        let (start, mut done) = (request.addr, 0);
        // What fails ends it: the bytes before are counted.
        let _ = self.after_claim(|| {
            let mut inner = self.lock();
            while done < len
                && let Some(at) = start.checked_add(done as u64)
            {
                request.addr = at;
                let page = inner.resolve(request)?.start() + at.page_offset();
                let n = (PAGE_SIZE - at.page_offset()).min((len - done) as u64) as usize;
                f(self.mm.machine().mem(), page, done..done + n);
                done += n;
            }
            Ok(())
        });
        done
    }
}
