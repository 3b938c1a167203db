//! Access to another address space's memory through its page tables (exec's setup, /proc/PID/mem).

use super::Access;
use super::resolve::{Request, resolve};
use crate::addr::{PAGE_SIZE, Pfn, VirtAddr};
use crate::arch::{Machine, PhysMem};
use crate::space::AddressSpace;

impl<M: Machine> AddressSpace<M> {
    /// Reads through the page tables, faulting pages in as for a user's read; returns bytes copied
    /// before the first bad page.
    pub fn read(&self, from: VirtAddr, into: &mut [u8]) -> usize {
        self.each_page(
            from,
            into.len(),
            Access::Read,
            false,
            |mem, pfn, inside, done, n| {
                mem.read(pfn.start() + inside, &mut into[done..done + n]);
            },
        )
    }

    /// Writes through the page tables, faulting pages in; `force` ignores a read-only VMA (exec's
    /// setup). Returns bytes copied before the first bad page.
    pub fn write(&self, to: VirtAddr, from: &[u8], force: bool) -> usize {
        self.each_page(
            to,
            from.len(),
            Access::Write,
            force,
            |mem, pfn, inside, done, n| {
                mem.write(pfn.start() + inside, &from[done..done + n]);
            },
        )
    }

    fn each_page(
        &self,
        start: VirtAddr,
        len: usize,
        access: Access,
        force: bool,
        mut f: impl FnMut(&M::Mem, Pfn, u64, usize, usize),
    ) -> usize {
        let mut inner = self.lock();
        let mut done = 0;
        while done < len {
            let Some(at) = start.checked_add(done as u64) else {
                break;
            };
            let request = Request {
                force,
                ..Request::new(at, access)
            };
            let Ok(pfn) = resolve(&mut inner, request) else {
                break;
            };
            let n = (PAGE_SIZE - at.page_offset()).min((len - done) as u64) as usize;
            f(self.mm.machine().mem(), pfn, at.page_offset(), done, n);
            done += n;
        }
        done
    }
}
