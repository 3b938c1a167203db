//! Information about one frame, for /proc/kpagecount, kpageflags and the like.

use super::Mm;
use crate::addr::{Order, Pfn};
use crate::arch::Machine;
use crate::frame::{Block, FrameTable, Kind};

/// The block that a frame lies in, as it was when it was looked at: nothing keeps it from changing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameInfo {
    /// The block; of [`Kind::Reserved`] for frames that are not the allocator's.
    pub block: Block,
    /// References to it: one for each page that an entry maps, and one for any other owner. 0 when
    /// free.
    pub references: u64,
    /// Whether it is the page of zeros, small or huge, which is not counted by its mappings.
    pub zeros: bool,
    /// Whether it is a huge page in use ([`crate::hugetlb`]).
    pub hugetlb: bool,
    /// Whether this frame is out of use, or will be.
    pub hwpoison: bool,
}

impl<M: Machine> Mm<M> {
    /// The block that a frame lies in; `None` where the frame table does not reach.
    pub fn frame_info(&self, pfn: Pfn) -> Option<FrameInfo> {
        self.frames().try_get(pfn)?;
        let block = block(self.frames(), pfn).unwrap_or(Block {
            head: pfn,
            kind: Kind::Reserved,
            order: Order(0),
        });
        Some(FrameInfo {
            block,
            references: match block.kind {
                Kind::Anon | Kind::Object => self.references(block.head),
                _ => 0,
            },
            hwpoison: self.frames().get(pfn).is_hwpoison(),
            hugetlb: self.frames().get(block.head).is_hugetlb(),
            zeros: [self.zero_page(), self.huge_zero_page()].contains(&block.head),
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
