//! /proc/kpagecount, kpageflags: every frame of the machine, by its number; pagemap.rst. And
//! kpageowner and kpageaddress, which are our own.

use super::words;
use crate::base::errno::Result;
use crate::base::machine::mm;
use crate::fs::OpenFlags;
use crate::fs::kinds::pseudo_tree::Tree;
use crate::fs::open::io::Sink;
use crate::fs::open::ops::{At, FileOps};
use crate::fs::tree::inode::{FileKind, Inode, Node};
use crate::thp::owners::Owners;
use alloc::boxed::Box;
use alloc::sync::Arc;
use mm::addr::{Order, Pfn};
use mm::{FrameInfo, frame::Kind as Use};

/// What a file says of a frame.
type Word = dyn Fn(Pfn) -> u64;

/// A file by what it says of frames: each read makes the function anew.
#[derive(Clone, Copy)]
struct PerFrame(fn() -> Result<Box<Word>>);

/// Enters all of them.
pub fn register(tree: &Tree) {
    let enter = |name, what| {
        let node = Node::new(tree.device(), FileKind::Regular, 0o400);
        tree.enter(name, Arc::new(File(node, PerFrame(what))));
    };
    enter("kpagecount", || Ok(Box::new(count)));
    enter("kpageflags", || Ok(Box::new(flags)));
    // The process that has the frame's folio for itself, by the account.
    enter("kpageowner", || {
        let owners = Owners::now()?;
        Ok(Box::new(move |pfn| owners.of(pfn) as u64))
    });
    // And where it maps the frame: the owner's tables say so, there is no reverse map.
    enter("kpageaddress", || {
        let owners = Owners::now()?;
        Ok(Box::new(move |pfn| owners.address(pfn)))
    });
}

struct File(Node, PerFrame);

impl Inode for File {
    fn node(&self) -> &Node {
        &self.0
    }
    fn open(self: Arc<Self>, _flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
        Ok(Arc::new(self.1))
    }
}

impl FileOps for PerFrame {
    fn read(&self, at: At, sink: &mut Sink<'_>) -> Result<usize> {
        let frames = mm().frames();
        let end = frames.span().end.0;
        let what = (self.0)()?;
        words::read(at, sink, end, |first, words| {
            for (number, word) in (first..).zip(words) {
                *word = what(Pfn(number));
            }
            Some(())
        })
    }
}

/// How often the page is mapped; of a large folio, whose pages are not counted one by one, the
/// average, rounded up. A page that a pipe holds counts once more.
fn count(pfn: Pfn) -> u64 {
    let Some(info) = mm().frame_info(pfn) else {
        return 0;
    };
    match info.block.kind {
        // A mapping has one for each 4 KiB.
        Use::Anon | Use::Object if info.hugetlb => info.references >> info.block.order.0,
        Use::Anon => info.references.div_ceil(info.block.order.pages()),
        // One of them for each page is the object's own.
        Use::Object => {
            let mean = info.references.div_ceil(info.block.order.pages());
            mean.saturating_sub(1)
        }
        _ => 0,
    }
}

/// A KPF_* flag of pagemap.rst.
const UPTODATE: u64 = 1 << 3;
const DIRTY: u64 = 1 << 4;
const BUDDY: u64 = 1 << 10;
const MMAP: u64 = 1 << 11;
const ANON: u64 = 1 << 12;
const SWAPBACKED: u64 = 1 << 14;
const COMPOUND_HEAD: u64 = 1 << 15;
const COMPOUND_TAIL: u64 = 1 << 16;
const HUGE: u64 = 1 << 17;
const HWPOISON: u64 = 1 << 19;
const NOPAGE: u64 = 1 << 20;
const THP: u64 = 1 << 22;
const ZERO_PAGE: u64 = 1 << 24;
const PGTABLE: u64 = 1 << 26;

/// What the frame is used for. There are no lists of pages to be reclaimed here, so LRU and its
/// relatives are 0, but for MMAP, ANON and SWAPBACKED.
fn flags(pfn: Pfn) -> u64 {
    let Some(info) = mm().frame_info(pfn) else {
        return NOPAGE;
    };
    let mapped = if count(pfn) > 0 { MMAP } else { 0 };
    let what = match info.block.kind {
        Use::Free if info.block.head == pfn => return BUDDY,
        Use::Anon => UPTODATE | ANON | SWAPBACKED | mapped,
        Use::Object => UPTODATE | DIRTY | SWAPBACKED | mapped,
        Use::Table => PGTABLE,
        Use::Kernel if info.zeros => ZERO_PAGE,
        _ => 0,
    };
    let bad = if info.hwpoison { HWPOISON } else { 0 };
    what | bad | compound(&info, pfn)
}

fn compound(info: &FrameInfo, pfn: Pfn) -> u64 {
    if info.block.order == Order(0) || !info.block.kind.in_use() {
        return 0;
    }
    let place = if info.block.head == pfn {
        COMPOUND_HEAD
    } else {
        COMPOUND_TAIL
    };
    let huge = matches!(info.block.kind, Use::Anon | Use::Object) || info.zeros;
    let hugetlb = info.hugetlb || info.block.kind == Use::Hugetlb;
    place
        | match (hugetlb, huge) {
            (true, _) => HUGE,
            (false, true) => THP,
            (false, false) => 0,
        }
}
