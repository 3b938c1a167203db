//! The store: bytes that are kept compressed, of pages that are in no folio ([`crate::manager`]).
//!
//! What is stored is cut into pieces of at most a page. Pieces of one size, in steps of
//! [`STEP`] bytes, lie in *spans* of one, two or four frames:
//! ```text
//!  a unit of 64 kB, compressed to 21,000 bytes:  4096 | 4096 | 4096 | 4096 | 4096 | 520
//!      the first five in class 32, a span each; the last in class 5, 25 to a span of four
//! ```
//! So at most a step of each unit is lost, and the rest of a span.

use crate::addr::{Order, PAGE_SIZE, Pfn, PhysAddr};
use crate::arch::{Machine, PhysMem};
use crate::frame::list::FrameList;
use crate::frame::slots::{Kept, UNIT};
use crate::frame::zone::Reserve;
use crate::frame::{FrameTable, Kind};
use crate::manager::Mm;
use crate::sync::{Lock, rank};
use alloc::boxed::Box;
use alloc::vec::Vec;
use arrayvec::ArrayVec;
use core::mem;
use lz4_flex::block::{
    CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size,
};

/// Sizes of pieces differ by so many bytes.
const STEP: usize = 128;
/// How many sizes there are.
const CLASSES: usize = PAGE_SIZE as usize / STEP;
/// The frames of spans by class, in order of preference: those that lose less come first.
const SPANS: [[Order; 3]; CLASSES] = {
    let mut spans = [[Order(0), Order(1), Order(2)]; CLASSES];
    let mut class = 0;
    while class < CLASSES {
        let [a, b, c] = &mut spans[class];
        // Three comparisons put three in order.
        sort(class + 1, a, b);
        sort(class + 1, b, c);
        sort(class + 1, a, b);
        class += 1;
    }
    spans
};
/// Exchanges them if less is lost of spans of the second order.
const fn sort(class: usize, a: &mut Order, b: &mut Order) {
    // In the frames of the largest one.
    if (capacity(*a, class) << (2 - a.0)) < capacity(*b, class) << (2 - b.0) {
        mem::swap(a, b);
    }
}
/// The most bytes of a unit.
const UNIT_BYTES: usize = UNIT.bytes() as usize;
/// The most pieces of a unit: what compresses worse is not stored ([`worth`]).
pub(crate) const PIECES: usize = worth(UNIT_BYTES) / PAGE_SIZE as usize;

/// The most bytes to which `bytes` must be compressed to be stored.
const fn worth(bytes: usize) -> usize {
    bytes / 4 * 3
}

/// The addresses of what was stored, in order.
pub(crate) type Pieces = ArrayVec<PhysAddr, PIECES>;

/// Compressed bytes, as they come and as they are kept.
pub(crate) enum Packed<'a> {
    /// All bytes of the unit are this one.
    Same(u8),
    /// Compressed.
    Bytes(&'a [u8]),
}

/// Room for one unit at a time, plain and compressed.
pub(crate) struct Bench {
    plain: Vec<u8>,
    packed: Vec<u8>,
    table: CompressTable,
}

impl Bench {
    fn new() -> Box<Self> {
        Box::new(Bench {
            plain: alloc::vec![0; UNIT_BYTES],
            packed: alloc::vec![0; get_maximum_output_size(UNIT_BYTES)],
            table: CompressTable::large(),
        })
    }

    /// The bytes of a unit of `n`, to be written to.
    pub fn plain(&mut self, n: u64) -> &mut [u8] {
        &mut self.plain[..n as usize]
    }

    /// Compresses the first `n` bytes; `None`: they are not worth it.
    pub fn pack(&mut self, n: u64) -> Option<Packed<'_>> {
        let plain = &self.plain[..n as usize];
        let first = plain[0];
        let (words, _) = plain.as_chunks();
        if words.iter().all(|word| *word == [first; 8]) {
            return Some(Packed::Same(first));
        }
        let len = compress_into_with_table(plain, &mut self.packed, &mut self.table).ok()?;
        (len <= worth(plain.len())).then(|| Packed::Bytes(&self.packed[..len]))
    }
    /// Fills `to` with what [`Self::pack`] has made `pieces` of.
    pub fn unpack<M: Machine>(&mut self, mm: &Mm<M>, pieces: &Pieces, kept: Kept, to: &mut [u8]) {
        let mem = mm.machine().mem();
        let mut unpack = |packed: &mut [u8]| {
            let unpacked = decompress_into(packed, to);
            assert_eq!(unpacked.ok(), Some(to.len()), "what was stored is broken");
        };
        match pieces[..] {
            [] => to.fill((kept.first.0 >> 8) as u8),
            // Nobody else reads it before it is dropped.
            [at] => mem.in_place(at, kept.len as u64, &mut unpack),
            _ => {
                let packed = &mut self.packed[..kept.len];
                for (piece, at) in packed.chunks_mut(PAGE_SIZE as usize).zip(pieces) {
                    mem.read(*at, piece);
                }
                unpack(packed);
            }
        }
    }
    /// [`Self::unpack`] of `n` bytes, here.
    pub fn unpack_here<M: Machine>(
        &mut self,
        mm: &Mm<M>,
        pieces: &Pieces,
        kept: Kept,
        n: u64,
    ) -> &[u8] {
        let mut plain = mem::take(&mut self.plain);
        self.unpack(mm, pieces, kept, &mut plain[..n as usize]);
        self.plain = plain;
        &self.plain[..n as usize]
    }
}

/// The bytes of heap for so many slots, and benches for so many CPUs and the spare one.
pub fn bytes(slots: u64, cpus: usize) -> usize {
    const BENCH: usize = 192 << 10;
    match slots {
        0 => 0,
        slots => (cpus + 1) * BENCH + slots as usize / 8 + (64 << 10),
    }
}

/// The figures of the store, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Stored pages, as they were.
    pub original: u64,
    /// Compressed.
    pub compressed: u64,
    /// In frames, with what is lost.
    pub used: u64,
    /// The most of these that there were, since this was forgotten last.
    pub peak: u64,
    /// Stored pages of which all bytes were the same, in pages.
    pub same: u64,
}

struct Spans {
    /// By class, the spans that have room.
    room: [FrameList; CLASSES],
    figures: Figures,
}

/// The spans, and benches for all who compress at a time.
pub(crate) struct Store {
    spans: Lock<Spans, { rank::STORE }>,
    benches: Lock<Vec<Box<Bench>>, { rank::BENCHES }>,
    /// One for who has the lock of an object, and cannot wait.
    spare: Lock<Option<Box<Bench>>, { rank::BENCHES }>,
}

impl Store {
    /// An empty one, at which `benches` threads can work at a time.
    pub fn new(benches: usize) -> Self {
        Store {
            spans: Lock::new(Spans {
                room: [FrameList::EMPTY; CLASSES],
                figures: Figures::default(),
            }),
            benches: Lock::new((0..benches).map(|_| Bench::new()).collect()),
            spare: Lock::new((benches > 0).then(Bench::new)),
        }
    }
    /// Its figures.
    pub fn figures(&self) -> Figures {
        self.spans.lock().figures
    }
    /// Has the highest figure begin anew.
    pub fn forget_peak(&self) {
        let figures = &mut self.spans.lock().figures;
        figures.peak = figures.used;
    }
    /// Does `f` at a bench, when there is one.
    pub fn at_bench<M: Machine, R>(
        &self,
        mm: &Mm<M>,
        f: impl FnOnce(&mut Bench) -> R,
    ) -> Option<R> {
        let mut bench = None;
        mm.machine().wait(&mut || {
            bench = bench.take().or_else(|| self.benches.lock().pop());
            bench.is_some()
        });
        let mut bench = bench?;
        let result = f(&mut bench);
        self.benches.lock().push(bench);
        mm.machine().wake();
        Some(result)
    }

    /// Does `f`, which is about what is stored, at the spare bench; the caller may have locks up to
    /// that of all slots.
    pub fn at_spare_bench<R>(&self, f: impl FnOnce(&mut Bench) -> R) -> R {
        let mut spare = self.spare.lock();
        f(spare.as_mut().expect("nothing is stored without slots"))
    }

    /// Stores what is left of a unit of `n` bytes; `None`: there is no memory.
    pub fn put<M: Machine>(&self, mm: &Mm<M>, packed: &Packed<'_>, n: u64) -> Option<Pieces> {
        let mut spans = self.spans.lock();
        let mut pieces = Pieces::new();
        if let Packed::Bytes(bytes) = packed {
            for piece in bytes.chunks(PAGE_SIZE as usize) {
                let Some(at) = spans.take(mm, piece.len().div_ceil(STEP)) else {
                    pieces.iter().for_each(|at| spans.give(mm, *at));
                    return None;
                };
                mm.machine().mem().write(at, piece);
                pieces.push(at);
            }
            spans.figures.compressed += bytes.len() as u64;
        } else {
            spans.figures.same += n / PAGE_SIZE;
        }
        spans.figures.original += n;
        Some(pieces)
    }
    /// Drops what was stored of a unit of `n` bytes, `len` when compressed, 0 if all were the same.
    pub fn drop<M: Machine>(&self, mm: &Mm<M>, pieces: &Pieces, len: usize, n: u64) {
        let mut spans = self.spans.lock();
        pieces.iter().for_each(|at| spans.give(mm, *at));
        spans.figures.original -= n;
        spans.figures.compressed -= len as u64;
        if len == 0 {
            spans.figures.same -= n / PAGE_SIZE;
        }
    }
}

/// How many objects of a class a span has: those of which it can note that they are in use.
const fn capacity(span: Order, class: usize) -> u32 {
    let fit = span.bytes() as usize / (class * STEP);
    if fit < 64 { fit as u32 } else { 64 }
}

impl Spans {
    /// Room for an object of this class.
    fn take<M: Machine>(&mut self, mm: &Mm<M>, class: usize) -> Option<PhysAddr> {
        let frames = mm.frames();
        let span = match self.room[class - 1].first(frames) {
            Some(span) => span,
            None => self.add(mm, class)?,
        };
        let meta = frames.get(span);
        let bit = meta.span().used().trailing_ones();
        let used = meta.span().used() | 1 << bit;
        meta.span().set_used(used);
        if used.count_ones() == capacity(meta.order(), class) {
            self.room[class - 1].remove(frames, span);
        }
        Some(PhysAddr(
            span.start().0 + (bit as usize * class * STEP) as u64,
        ))
    }
    fn add<M: Machine>(&mut self, mm: &Mm<M>, class: usize) -> Option<Pfn> {
        // More comes back at once, and what is parked cannot without it.
        let alloc = |order| mm.alloc(order, Kind::Kernel, Reserve::Kernel).ok();
        let span = SPANS[class - 1].into_iter().find_map(alloc)?;
        let meta = mm.frames().get(span);
        meta.span().set_class(class);
        meta.span().set_used(0);
        self.figures.used += meta.order().bytes();
        self.figures.peak = self.figures.peak.max(self.figures.used);
        self.room[class - 1].push(mm.frames(), span);
        Some(span)
    }
    /// Gives the room of an object back.
    fn give<M: Machine>(&mut self, mm: &Mm<M>, at: PhysAddr) {
        let frames: &FrameTable = mm.frames();
        let span = frames.head(at.frame());
        let meta = frames.get(span);
        let (class, used, order) = (meta.span().class(), meta.span().used(), meta.order());
        let bit = (at.0 - span.start().0) / (class * STEP) as u64;
        debug_assert!(used & 1 << bit != 0, "{at:?} is not in use");
        let left = used & !(1 << bit);
        meta.span().set_used(left);
        let was_full = used.count_ones() == capacity(order, class);
        match (was_full, left) {
            (true, 1..) => self.room[class - 1].push(frames, span),
            (false, 0) => self.room[class - 1].remove(frames, span),
            _ => {}
        }
        if left == 0 {
            meta.span().set_class(0);
            self.figures.used -= order.bytes();
            mm.free_kernel(span, order);
        }
    }
}
