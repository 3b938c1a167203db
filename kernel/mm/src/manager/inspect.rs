//! Information about one frame, for /proc/kpagecount, kpageflags and the like.

use super::Mm;
use crate::addr::{Order, Pfn};
use crate::arch::Machine;
use crate::frame::{Block, FrameTable, Kind};

/// The block that a frame lies in, as it was when it was looked at: nothing keeps it from changing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameInfo {
    /// What it is used for; [`Kind::Reserved`] for frames that are not the allocator's.
    pub kind: Kind,
    /// Its first frame.
    pub head: Pfn,
    /// log2 of its frames.
    pub order: Order,
    /// References to it: one for each page that an entry maps, and one for any other owner. 0 when
    /// free.
    pub references: u64,
    /// Whether it is the page of zeros, small or huge, which is not counted by its mappings.
    pub zeros: bool,
}

impl<M: Machine> Mm<M> {
    /// The block that a frame lies in; `None` where the frame table does not reach.
    pub fn frame_info(&self, pfn: Pfn) -> Option<FrameInfo> {
        self.frames().try_get(pfn)?;
        let Block { head, kind, order } = block(self.frames(), pfn).unwrap_or(Block {
            head: pfn,
            kind: Kind::Reserved,
            order: Order(0),
        });
        let zeros = head == self.zero_page() || head == self.huge_zero_page();
        let references = match kind {
            Kind::Anon | Kind::Object => self.references(head),
            _ => 0,
        };
        Some(FrameInfo {
            kind,
            head,
            order,
            references,
            zeros,
        })
    }
}

/// The block around any frame of the table, in use or free; `None` for frames of the firmware or
/// the image.
fn block(frames: &FrameTable, pfn: Pfn) -> Option<Block> {
    let mut head = pfn;
    loop {
        let (kind, order) = frames.try_get(head)?.kind_and_order();
        if kind != Kind::Reserved {
            return (pfn - head < order.pages()).then_some(Block { head, kind, order });
        }
        // Blocks are naturally aligned: the head has fewer bits.
        head = Pfn(head.0 & head.0.checked_sub(1)?);
    }
}
