//! Opening pipes: FIFOs by name, fifo(7), and pipes without one by /proc/PID/fd, pipe(7).

use crate::base::errno::{Errno, Result};
use crate::fs::kinds::anonymous;
use crate::fs::kinds::pipe::{End, Pipe};
use crate::fs::open::flags::OpenFlags;
use crate::fs::open::ops::FileOps;
use crate::fs::tree::inode::{FileKind, Inode, Node};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;

/// What an open file does with a pipe.
struct Sides {
    read: bool,
    write: bool,
}

impl Sides {
    fn of(flags: OpenFlags) -> Sides {
        Sides {
            read: flags.reads(),
            write: flags.writes(),
        }
    }
}

/// Opens a FIFO: waits for the other side, fifo(7).
pub fn open(pipe: &Arc<Pipe>, flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
    let nonblocking = flags.contains(OpenFlags::NONBLOCK);
    let Sides { read, write } = Sides::of(flags);
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
    fn open(self: Arc<Self>, flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
        // Unlike a FIFO it is whole already: nothing is waited for, even when the other side has
        // gone.
        let Sides { read, write } = Sides::of(flags);
        Ok(self.pipe.open(read, write))
    }
    fn label(&self) -> Option<String> {
        Some(format!("pipe:[{}]", self.node.number))
    }
}

/// pipe(2): the inode with the reading and the writing end.
pub fn pair() -> (Arc<dyn Inode>, Arc<End>, Arc<End>) {
    let pipe = Pipe::new();
    let (reader, writer) = (pipe.open(true, false), pipe.open(false, true));
    let node = Node::new(anonymous::device(), FileKind::Fifo, 0o600);
    (Arc::new(PipeInode { node, pipe }), reader, writer)
}
