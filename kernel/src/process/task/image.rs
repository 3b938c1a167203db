//! The program that a process runs.

use super::Process;
use crate::fs::ExecFile;
use mm::addr::{VirtAddr, VirtRange};

/// Layout of the program, for /proc.
#[derive(Clone)]
pub struct Image {
    /// The program.
    pub exe: Option<ExecFile>,
    /// Where the argument strings lie in user memory.
    pub args: VirtRange,
    /// Where the environment strings lie.
    pub env: VirtRange,
    /// Where the auxiliary vector lies.
    pub auxv: VirtRange,
    /// Text (lowest executable segment).
    pub code: VirtRange,
    /// Initialised data and bss.
    pub data: VirtRange,
    /// Where the heap starts.
    pub brk: VirtAddr,
    /// The stack pointer the program started with.
    pub stack: VirtAddr,
}

impl Image {
    const NOTHING: VirtRange = VirtRange {
        start: VirtAddr(0),
        end: VirtAddr(0),
    };
    /// Before the first execve.
    pub const NONE: Image = Image {
        exe: None,
        args: Self::NOTHING,
        env: Self::NOTHING,
        auxv: Self::NOTHING,
        code: Self::NOTHING,
        data: Self::NOTHING,
        brk: VirtAddr(0),
        stack: VirtAddr(0),
    };
}

impl Process {
    /// The program as execve loaded it.
    pub fn image(&self) -> Image {
        self.image.lock().clone()
    }

    pub(crate) fn set_image(&self, image: Image) {
        let old = core::mem::replace(&mut *self.image.lock(), image);
        drop(old);
    }

    /// The program it runs.
    pub fn exe(&self) -> Option<ExecFile> {
        self.image.lock().exe.clone()
    }
}
