//! A file as memory, which other processes and threads write meanwhile.
use models::Ram;
use rustix::mm::{MapFlags, ProtFlags, mmap};
use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The words of a file. Its addresses are offsets.
pub struct Shared(&'static [AtomicU64]);

impl Shared {
    /// Maps the file, which is not empty and does not become shorter, until QEMU ends.
    pub fn map(file: &File) -> std::io::Result<Shared> {
        let bytes = file.metadata()?.len() as usize;
        let (read, shared) = (ProtFlags::READ, MapFlags::SHARED);
        // SAFETY: the kernel chooses an address where nothing is. It is never unmapped, has so many
        // bytes, all of them initialised, and is only read here, by atomic loads.
        let words = unsafe {
            let start = mmap(std::ptr::null_mut(), bytes, read, shared, file, 0)?;
            std::slice::from_raw_parts(start.cast::<AtomicU64>(), bytes / 8)
        };
        Ok(Shared(words))
    }

    /// How long the file is.
    pub fn bytes(&self) -> u64 {
        self.0.len() as u64 * 8
    }
}

impl Ram for Shared {
    fn read_u64(&self, offset: u64) -> Option<u64> {
        let word = self.0.get(offset as usize / 8)?;
        Some(u64::from_le(word.load(Relaxed)))
    }
}
