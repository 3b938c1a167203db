//! /proc/sysvipc/shm: segments of shared memory, as ipcs(1) shows them.

use crate::base::errno::Result;
use crate::fs::OpenFlags;
use crate::fs::kinds::pseudo_tree::Tree;
use crate::fs::kinds::records::{RecordFile, Records};
use crate::fs::open::ops::FileOps;
use crate::fs::tree::inode::{FileKind, Inode, Node};
use crate::process::shm::{self, Segment};
use alloc::format;
use alloc::sync::Arc;
use mm::addr::PAGE_SIZE;
use parts::text::Text;

/// More than a line has.
const LINE: usize = 320;

const HEAD: &[u8] = b"       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid      atime      dtime      ctime                   rss                  swap\n";

/// Enters the file.
pub fn register(tree: &Tree) {
    let node = Node::new(tree.device(), FileKind::Regular, 0o444);
    tree.enter("sysvipc/shm", Arc::new(File(node)));
}

struct File(Node);

impl Inode for File {
    fn node(&self) -> &Node {
        &self.0
    }
    fn open(self: Arc<Self>, _flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
        RecordFile::open(Segments)
    }
}

struct Segments;

impl Records for Segments {
    /// The head line comes first, then the segment with index `from` - 1, or the next one.
    fn records(&self, from: u64, out: &mut Text) -> Result<Option<u64>> {
        out.make_room(LINE)?;
        let Some(index) = from.checked_sub(1) else {
            out.bytes(HEAD);
            return Ok(Some(1));
        };
        let Some((index, segment)) = shm::from_index(index as u32) else {
            return Ok(None);
        };
        out.bytes(line(&segment).as_bytes());
        Ok(Some(u64::from(index) + 2))
    }
}

fn line(segment: &Arc<Segment>) -> alloc::string::String {
    let (state, (cuid, cgid, cpid)) = (segment.state(), segment.creator);
    let mode = state.mode | u32::from(state.removed) << 9 | u32::from(state.locked) << 10;
    format!(
        "{:10} {:10}  {:4o} {:21} {:5} {:5}  {:5} {:5} {:5} {:5} {:5} {:10} {:10} {:10} {:21} {:21}\n",
        segment.key(),
        segment.id(),
        mode,
        segment.size,
        cpid,
        state.last_pid,
        segment.attachments(),
        state.uid,
        state.gid,
        cuid,
        cgid,
        state.attached,
        state.detached,
        state.changed,
        segment.resident() * PAGE_SIZE,
        0
    )
}
