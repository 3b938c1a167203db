//! A random address space and a call of mremap in it.

use super::common::*;
use arch_sim::{Process, Sim, World};
use mm::addr::{PAGE_SIZE, VirtAddr};
use mm::arch::PteFormat;
use mm::object::Object;
use mm::switch::Switch;
use mm::vma::{AnonVma, Backing, Prot, Vma, VmaFlags};
use mm::{Error, Place, RemapFlags};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Pages at each of two places: half of them lie before the end of a table, here of PTEs and there
/// of PUDs.
pub const PAGES: u64 = 64;
/// Where other areas lie, that make the tree of VMAs large.
const OTHERS: VirtAddr = VirtAddr(1 << 36);

/// Where page `n` is, if each is `unit` real ones.
pub fn at(unit: u64, n: u64) -> VirtAddr {
    let (end, n) = match n.checked_sub(PAGES) {
        None => (1u64 << 30, n),
        Some(n) => (1 << 40, n),
    };
    VirtAddr(end - PAGES / 2 * unit * PAGE_SIZE + n * unit * PAGE_SIZE)
}

#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Private,
    Shared,
    Copied,
}

/// One mmap, and whether its pages are written.
#[derive(Clone, Debug)]
pub struct Area {
    at: u64,
    len: u64,
    prot: Prot,
    kind: Kind,
    written: bool,
}

/// One mremap, in pages.
#[derive(Clone, Debug)]
pub struct Call {
    pub at: u64,
    pub old_len: u64,
    pub new_len: u64,
    pub to: u64,
    flags: RemapFlags,
    unit: u64,
}

impl Call {
    pub fn make<F: PteFormat>(&self, p: &Process<F>) -> Result<VirtAddr, Error> {
        let bytes = |n: u64| n * self.unit * PAGE_SIZE;
        let (old_len, new_len) = (bytes(self.old_len), bytes(self.new_len));
        p.remap(
            at(self.unit, self.at),
            old_len,
            new_len,
            self.flags,
            at(self.unit, self.to),
            &mut Default::default(),
        )
    }
    pub fn fixed(&self) -> bool {
        self.flags.contains(RemapFlags::FIXED)
    }
    /// Where page `n` of the old range goes.
    pub fn target(&self, n: u64) -> Option<u64> {
        let moves = (self.at..self.at + self.old_len).contains(&n);
        moves.then(|| n - self.at + self.to)
    }
    /// Which page comes to `n`.
    pub fn source(&self, n: u64) -> Option<u64> {
        let comes = (self.to..self.to + self.old_len.min(self.new_len)).contains(&n);
        comes.then(|| n - self.to + self.at)
    }
    /// Whether the caller gave up what is in page `n`: in the target, or behind the new end.
    pub fn is_given_up(&self, n: u64) -> bool {
        (self.to..self.to + self.new_len).contains(&n)
            || (self.at + self.new_len..self.at + self.old_len).contains(&n)
    }
    /// Where it went: what is chosen freely may differ from space to space.
    pub fn name(&self, now: VirtAddr) -> &'static str {
        if now == at(self.unit, self.at) {
            "there"
        } else if now == at(self.unit, self.to) {
            "to"
        } else {
            "elsewhere"
        }
    }
}

#[derive(Clone, Debug)]
pub struct Scene {
    areas: Vec<Area>,
    others: u64,
    orders: Vec<u8>,
    level: u32,
    pub call: Call,
}

/// What is known of an area.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Seen {
    start: VirtAddr,
    end: VirtAddr,
    prot: Prot,
    flags: VmaFlags,
    /// The object, and its page at the start.
    object: Option<(usize, u64)>,
    history: (bool, Option<AnonVma>, u64),
}

/// All areas.
pub type Shown = Vec<Seen>;

/// One page of an area, whatever the rest of it is: protection, flags, and the object's page.
pub type Page = (Prot, VmaFlags, Option<(usize, u64)>);

fn seen<F: PteFormat>(vma: &Vma<Sim<F>>) -> Seen {
    let object = match &vma.backing {
        Backing::Anon => None,
        Backing::Object { object, offset, .. } => Some((Arc::as_ptr(object) as usize, *offset)),
    };
    Seen {
        start: vma.range.start,
        end: vma.range.end,
        prot: vma.prot,
        flags: vma.flags,
        object,
        history: (vma.has_anon, vma.anon_vma, vma.moved),
    }
}

impl Scene {
    /// Frames that it needs, and some for tables.
    pub fn frames(&self) -> usize {
        512 + 2 * (PAGES * self.call.unit) as usize
    }

    /// Page `n` of the arena.
    pub fn page(&self, shown: &Shown, n: u64) -> Option<Page> {
        let va = at(self.call.unit, n);
        let area = shown.iter().find(|s| (s.start..s.end).contains(&va))?;
        let index = (va - area.start) / PAGE_SIZE;
        let object = area.object.map(|(object, first)| (object, first + index));
        Some((area.prot, area.flags, object))
    }

    pub fn look<F: PteFormat>(&self, p: &Process<F>) -> Shown {
        let mut shown = Shown::new();
        p.for_each_vma(&mut |vma| shown.push(seen(vma)));
        shown
    }

    /// Maps and writes everything.
    pub fn build<F: PteFormat>(&self, w: &World<F>, p: &Process<F>) {
        sizes(w, &self.orders);
        w.mm.switches().set(Switch::Move, self.level);
        for n in 0..self.others {
            let prot = if n % 2 == 0 { RW } else { Prot::READ };
            map(p, OTHERS + n * PAGE_SIZE, 1, prot);
        }
        self.areas.iter().for_each(|area| self.put(w, p, area));
    }

    fn put<F: PteFormat>(&self, w: &World<F>, p: &Process<F>, area: &Area) {
        let unit = self.call.unit;
        let (start, pages) = (at(unit, area.at), area.len * unit);
        let flags = match area.kind {
            Kind::Shared => VmaFlags::SHARED,
            _ => VmaFlags::empty(),
        };
        let request = match area.kind {
            Kind::Private => anon(Place::Fixed(start), pages, RW),
            Kind::Shared | Kind::Copied => {
                let object = Object::new(&w.mm);
                object.set_len(pages * PAGE_SIZE);
                of_object(&object, 0, start, pages, RW, flags)
            }
        };
        p.map(request).unwrap();
        for n in (area.at..area.at + area.len).filter(|_| area.written) {
            w.store((n % 2) as usize, p, at(unit, n), byte(n)).unwrap();
        }
        p.protect(start, pages * PAGE_SIZE, area.prot).unwrap();
    }

    /// The pages that hold what was written.
    pub fn written(&self) -> BTreeSet<u64> {
        let mut pages = BTreeSet::new();
        for area in &self.areas {
            let these = area.at..area.at + area.len;
            pages.retain(|n| !these.contains(n));
            pages.extend(these.filter(|_| area.written));
        }
        pages
    }

    /// Whether page `n` holds what was written to page `of`.
    pub fn holds<F: PteFormat>(&self, w: &World<F>, p: &Process<F>, n: u64, of: u64) -> bool {
        w.load(0, p, at(self.call.unit, n)) == Ok(byte(of))
    }
}

fn byte(n: u64) -> u8 {
    n as u8 + 1
}

fn area() -> impl Strategy<Value = Area> {
    let kind =
        prop_oneof![3 => Just(Kind::Private), 1 => Just(Kind::Shared), 1 => Just(Kind::Copied)];
    let prot = prop_oneof![2 => Just(RW), 1 => Just(Prot::READ)];
    let (start, len) = (prop::bool::weighted(0.3), 1..24u64);
    (start, 0..PAGES - 24, len, prot, kind, any::<bool>()).prop_map(
        |(far, at, len, prot, kind, written)| Area {
            at: at + if far { PAGES } else { 0 },
            len,
            prot,
            kind,
            written,
        },
    )
}

fn call() -> impl Strategy<Value = Call> {
    let stays = RemapFlags::empty();
    let keeps = RemapFlags::DONTUNMAP;
    let flags = prop_oneof![
        1 => Just(stays), 2 => Just(MAYMOVE), 6 => Just(FIXED), 1 => Just(MAYMOVE | keeps), 2 => Just(FIXED | keeps)
    ];
    let lens = prop_oneof![
        1 => Just((0, 8)), 4 => (1..30u64).prop_map(|n| (n, n)), 3 => (1..30u64, 1..30u64)
    ];
    let place = 0..PAGES - 30;
    (
        place.clone(),
        place,
        lens,
        flags,
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(at, to, (old_len, new_len), flags, far, large)| Call {
            at,
            old_len,
            new_len,
            to: to + if far { PAGES } else { 0 },
            flags,
            unit: if large { 32 } else { 1 },
        })
}

pub fn scene() -> impl Strategy<Value = Scene> {
    // A leaf of the tree has 32 areas, an inner node 32 branches.
    let others = prop_oneof![2 => Just(0), 4 => 20..36u64, 2 => 60..70u64, 1 => 1010..1030u64];
    let orders = prop_oneof![
        Just(vec![]),
        Just(vec![4]),
        Just(vec![9]),
        Just(vec![2, 4, 6, 9])
    ];
    let areas = prop::collection::vec(area(), 1..12);
    let whole = prop::bool::weighted(0.6);
    (areas, others, orders, 0..3u32, (call(), whole)).prop_map(
        |(areas, others, orders, level, (mut call, whole))| {
            // Often it is one area, written or not, that goes.
            if let Some(area) = areas.last().filter(|a| whole && a.at < PAGES) {
                (call.at, call.old_len) = (area.at, area.len);
                call.new_len = call.new_len.max(area.len);
            }
            Scene {
                areas,
                others,
                orders,
                level,
                call,
            }
        },
    )
}
