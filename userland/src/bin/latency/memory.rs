//! The memory that events happen in.
use userland::measuring::reserve;
use userland::sys::Result;
use userland::sys::mem::{self, PAGE, RW};

/// What one PMD entry maps: the largest folio.
const HUGE: usize = 2 << 20;

/// Private memory at a multiple of 2 MiB, in which every folio of a size begins at a multiple of
/// it.
pub struct Memory {
    at: usize,
    len: usize,
}

impl Memory {
    /// So many MiB, an even number, of nothing yet.
    pub fn map(mib: usize) -> Result<Memory> {
        let len = mib << 20;
        Ok(Memory {
            at: reserve(len, HUGE, RW)?,
            len,
        })
    }

    /// The same with every page written.
    pub fn filled(mib: usize) -> Result<Memory> {
        let memory = Memory::map(mib)?;
        memory.fill();
        Ok(memory)
    }

    /// Writes every page.
    pub fn fill(&self) {
        self.each(PAGE >> 10).for_each(|page| mem::store(page, 1));
    }

    /// The first address of each folio of so many kB.
    pub fn each(&self, kb: usize) -> impl Iterator<Item = usize> + use<> {
        (self.at..self.at + self.len).step_by(kb << 10)
    }

    /// mprotect(2) of all of it.
    pub fn protect(&self, prot: i32) -> Result<()> {
        mem::mprotect(self.at, self.len, prot)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // What cannot be unmapped goes with the process.
        let _ = mem::munmap(self.at, self.len);
    }
}
