//! Opening pipes by name (FIFOs, /proc/PID/fd), fifo(7), and the inodes of pipes without one.

use crate::errno::{Errno, Result};
use crate::fs::anonymous;
use crate::fs::file::FileOps;
use crate::fs::inode::{Inode, Kind, Node};
use crate::fs::pipe::{End, Pipe};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use linux_raw_sys::general as c;

/// Opens a FIFO: waits for the other side, fifo(7).
pub fn open(pipe: &Arc<Pipe>, flags: u32) -> Result<Arc<dyn FileOps>> {
    let nonblocking = flags & c::O_NONBLOCK != 0;
    let (read, write) = match flags & c::O_ACCMODE {
        c::O_RDONLY => (true, false),
        c::O_WRONLY => (false, true),
        _ => (true, true),
    };
    if write && !read && nonblocking && !pipe.has_readers() {
        return Err(Errno::ENXIO);
    }
    let before = pipe.opened();
    let end = pipe.open(read, write);
    if !nonblocking && read != write {
        pipe.meet(read, before)?;
    }
    Ok(end)
}

/// A pipe's inode: what /proc/PID/fd/N shows and reopens.
struct PipeInode {
    node: Node,
    pipe: Arc<Pipe>,
}

impl Inode for PipeInode {
    fn node(&self) -> &Node {
        &self.node
    }
    fn open(self: Arc<Self>, flags: u32) -> Result<Arc<dyn FileOps>> {
        open(&self.pipe, flags)
    }
    fn label(&self) -> Option<String> {
        Some(format!("pipe:[{}]", self.node.number))
    }
}

/// pipe(2): the inode with the reading and the writing end.
pub fn pair() -> (Arc<dyn Inode>, Arc<End>, Arc<End>) {
    let pipe = Pipe::new();
    let (reader, writer) = (pipe.open(true, false), pipe.open(false, true));
    let node = Node::new(anonymous::device(), Kind::Fifo, 0o600);
    (Arc::new(PipeInode { node, pipe }), reader, writer)
}
