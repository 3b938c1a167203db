//! The store: bytes that are kept compressed, of pages that are in no folio ([`crate::manager`]).
//!
//! What is stored is cut into pieces of at most a page. Pieces of one size, in steps of
//! [`STEP`] bytes, lie in *spans* of one to four frames, wherever these are:
//! ```text
//!  a unit of 64 kB, compressed to 21,000 bytes:  4096 | 4096 | 4096 | 4096 | 4096 | 520
//!      the first five in class 32, a span each; the last in class 5, 19 to a span of three
//! ```
//! So at most a step of each unit is lost, and the rest of a span; and memory that is in pieces
//! takes as much.

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
use core::ops::Range;
use lz4_flex::block::{
    CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size,
};

/// Sizes of pieces differ by so many bytes.
const STEP: usize = 128;
/// How many sizes there are.
const CLASSES: usize = PAGE_SIZE as usize / STEP;
/// A span has at most so many frames.
const MOST_FRAMES: usize = 4;
/// The frames of spans by class: of so many least is lost.
const FRAMES: [usize; CLASSES] = {
    let mut frames = [1; CLASSES];
    let mut class = 1;
    while class <= CLASSES {
        let (best, mut n) = (&mut frames[class - 1], 2);
        while n <= MOST_FRAMES {
            if lost(class, n) * *best < lost(class, *best) * n {
                *best = n;
            }
            n += 1;
        }
        class += 1;
    }
    frames
};
/// The bytes of so many frames of which no object has any.
const fn lost(class: usize, frames: usize) -> usize {
    frames * PAGE_SIZE as usize % (class * STEP)
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
            [at] if parts(mm, at, kept.len)[1].1.is_empty() => {
                mem.in_place(at, kept.len as u64, &mut unpack)
            }
            _ => {
                let packed = &mut self.packed[..kept.len];
                for (piece, at) in packed.chunks_mut(PAGE_SIZE as usize).zip(pieces) {
                    for (at, part) in parts(mm, *at, piece.len()) {
                        mem.read(at, &mut piece[part]);
                    }
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
    #[expect(clippy::vec_box, reason = "one is moved out and in for each unit")]
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
    pub fn put<M: Machine>(
        &self,
        mm: &Mm<M>,
        packed: &Packed<'_>,
        n: u64,
    ) -> Option<(Kept, Pieces)> {
        let mut spans = self.spans.lock();
        let mut pieces = Pieces::new();
        let (len, first) = match packed {
            Packed::Same(byte) => {
                spans.figures.same += n / PAGE_SIZE;
                (0, PhysAddr(u64::from(*byte) << 8))
            }
            Packed::Bytes(bytes) => {
                for piece in bytes.chunks(PAGE_SIZE as usize) {
                    let Some(at) = spans.take(mm, piece.len().div_ceil(STEP)) else {
                        pieces.iter().for_each(|at| spans.give(mm, *at));
                        return None;
                    };
                    for (at, part) in parts(mm, at, piece.len()) {
                        mm.machine().mem().write(at, &piece[part]);
                    }
                    pieces.push(at);
                }
                spans.figures.compressed += bytes.len() as u64;
                (bytes.len(), pieces[0])
            }
        };
        spans.figures.original += n;
        Some((Kept { len, first }, pieces))
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

/// Where a piece of `n` bytes is: in the frame that it begins in, and the rest, if there is one, in
/// the next one of its span.
fn parts<M: Machine>(mm: &Mm<M>, at: PhysAddr, n: usize) -> [(PhysAddr, Range<usize>); 2] {
    let here = n.min((PAGE_SIZE - at.0 % PAGE_SIZE) as usize);
    let next = mm.frames().get(at.frame()).span().next();
    [(at, 0..here), (mm.frames().pfn(next).start(), here..n)]
}

/// How many objects of a class a span has.
const fn capacity(class: usize) -> u32 {
    (FRAMES[class - 1] * PAGE_SIZE as usize / (class * STEP)) as u32
}

impl Spans {
    /// Room for an object of this class.
    fn take<M: Machine>(&mut self, mm: &Mm<M>, class: usize) -> Option<PhysAddr> {
        let frames = mm.frames();
        let mut frame = match self.room[class - 1].first(frames) {
            Some(span) => span,
            None => self.add(mm, class)?,
        };
        let span = frames.get(frame).span();
        let bit = span.used().trailing_ones();
        let used = span.used() | 1 << bit;
        span.set(class, used);
        if used.count_ones() == capacity(class) {
            self.room[class - 1].remove(frames, frame);
        }
        let at = (bit as usize * class * STEP) as u64;
        for _ in 0..at / PAGE_SIZE {
            frame = frames.pfn(frames.get(frame).span().next());
        }
        Some(frame.start() + at % PAGE_SIZE)
    }
    fn add<M: Machine>(&mut self, mm: &Mm<M>, class: usize) -> Option<Pfn> {
        let frames = mm.frames();
        // More comes back at once, and what is parked cannot without it.
        let alloc = |_| mm.alloc(Order(0), Kind::Kernel, Reserve::Kernel).ok();
        let span: ArrayVec<Pfn, MOST_FRAMES> = (0..FRAMES[class - 1]).map_while(alloc).collect();
        if span.len() < FRAMES[class - 1] {
            span.iter()
                .for_each(|frame| mm.free_kernel(*frame, Order(0)));
            return None;
        }
        for (n, frame) in span.iter().enumerate() {
            let next = span.get(n + 1).map_or(0, |next| frames.index(*next));
            let view = frames.get(*frame).span();
            view.link(next, (n > 0).then(|| (frames.index(span[0]), n as u64)));
            // What the frame was before may have left something there.
            view.set(if n == 0 { class } else { 0 }, 0);
        }
        self.figures.used += span.len() as u64 * PAGE_SIZE;
        self.figures.peak = self.figures.peak.max(self.figures.used);
        self.room[class - 1].push(frames, span[0]);
        Some(span[0])
    }
    /// Gives the room of an object back.
    fn give<M: Machine>(&mut self, mm: &Mm<M>, at: PhysAddr) {
        let frames: &FrameTable = mm.frames();
        let view = frames.get(at.frame()).span();
        let (first, n) = match view.class() {
            0 => view.first(),
            _ => (frames.index(at.frame()), 0),
        };
        let first = frames.pfn(first);
        let span = frames.get(first).span();
        let (class, used) = (span.class(), span.used());
        let bit = (n * PAGE_SIZE + at.0 % PAGE_SIZE) / (class * STEP) as u64;
        debug_assert!(used & 1 << bit != 0, "{at:?} is not in use");
        let left = used & !(1 << bit);
        span.set(class, left);
        let was_full = used.count_ones() == capacity(class);
        match (was_full, left) {
            (true, 1..) => self.room[class - 1].push(frames, first),
            (false, 0) => self.room[class - 1].remove(frames, first),
            _ => {}
        }
        if left == 0 {
            self.figures.used -= (FRAMES[class - 1] as u64) * PAGE_SIZE;
            let mut frame = first;
            for _ in 0..FRAMES[class - 1] {
                let view = frames.get(frame).span();
                let next = view.next();
                view.set(0, 0);
                view.link(0, None);
                mm.free_kernel(frame, Order(0));
                frame = frames.pfn(next);
            }
        }
    }
}
