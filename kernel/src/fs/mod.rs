//! STUB of fs: names that processes need.
#![allow(missing_docs)]
use crate::errno::{Errno, Result};
use crate::machine::{Hw, Object};
use alloc::string::String;
use alloc::sync::Arc;
use mm::vma::{Backing, MappedFile, VmaFlags};

pub fn init(_archives: &[&[u8]]) -> core::result::Result<(), String> {
    Ok(())
}

pub struct FdTable;
impl FdTable {
    pub fn fork(&self) -> FdTable {
        FdTable
    }
    pub fn close_on_exec(&self) {}
    pub fn get(&self, _fd: i32) -> Result<Arc<OpenFile>> {
        Err(Errno::EBADF)
    }
}

#[derive(Clone)]
pub struct Location;
pub struct OpenFile {
    pub place: Location,
}
pub struct Mapping {
    pub backing: Backing<Hw>,
    pub flags: VmaFlags,
}
impl OpenFile {
    pub fn mmap(&self, _shared: bool, _write: bool, _offset: u64) -> Result<Mapping> {
        Err(Errno::ENODEV)
    }
}

pub struct FsContext;
impl FsContext {
    pub fn new() -> FsContext {
        FsContext
    }
    pub fn fork(&self) -> FsContext {
        FsContext
    }
    pub fn cwd(&self) -> Location {
        Location
    }
}

#[derive(Clone)]
pub struct ExecFile(Arc<Object>);
impl ExecFile {
    pub fn object(&self) -> &Arc<Object> {
        &self.0
    }
    pub fn len(&self) -> u64 {
        self.0.len()
    }
    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> usize {
        self.0.read_at(offset, into)
    }
    pub fn mapped_file(&self) -> Arc<dyn MappedFile> {
        Arc::new(Nothing)
    }
    pub fn path(&self) -> String {
        String::new()
    }
}
struct Nothing;
impl MappedFile for Nothing {
    fn path(&self) -> String {
        String::new()
    }
    fn id(&self) -> (u64, u64) {
        (0, 0)
    }
}
pub fn open_exec(_context: &FsContext, _path: &[u8]) -> Result<ExecFile> {
    Err(Errno::ENOENT)
}
pub fn open_exec_at(
    _context: &FsContext,
    _base: Location,
    _path: &[u8],
    _follow: bool,
) -> Result<ExecFile> {
    Err(Errno::ENOENT)
}
pub fn exec_of(_file: &OpenFile) -> Result<ExecFile> {
    Err(Errno::EACCES)
}
pub fn open_console() -> Result<FdTable> {
    Ok(FdTable)
}
pub mod tty {
    pub fn receive_pending() {
        while crate::arch::serial::read().is_some() {}
    }
}
