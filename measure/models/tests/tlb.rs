//! One level of a TLB beside a slow reference: a list of (array, entry, time of the last use).

use models::config::TlbArray;
use models::entry::{Entry, Kind};
use models::tlb::Tlb;
use models::{Flush, Tables};
use proptest::prelude::*;

const SHAPES: &[&[u8]] = &[
    &[12],
    &[21],
    &[12, 16],
    &[12, 21],
    &[12, 14, 16, 21],
    &[16, 30],
];

struct Slow {
    arrays: Vec<TlbArray>,
    entries: Vec<(usize, Entry, u64)>,
    now: u64,
}

impl Slow {
    fn find(&mut self, address: u64, tag: u16, kind: Kind) -> Option<Entry> {
        self.now += 1;
        let mut entries = self.entries.iter_mut();
        let found = entries.find(|(_, entry, _)| {
            let inside = entry.base <= address && address - entry.base < 1 << entry.size;
            inside && (entry.global || entry.tag == tag) && entry.kind == kind
        })?;
        found.2 = self.now;
        Some(found.1)
    }
    /// Whether a flush of pages drops an entry: each address of the range, page by page.
    fn drops(flush: &Flush, entry: &Entry) -> bool {
        let Flush::Pages {
            address,
            bytes,
            tag,
            globals,
            tables,
        } = *flush
        else {
            unreachable!("another flush");
        };
        let size = entry.size.max(entry.leaf);
        let mut pages = (address >> 12..=(address + bytes - 1) >> 12).map(|page| page << 12);
        let overlaps = pages.any(|page| page >> size == entry.base >> size);
        let tagged = tag.is_none_or(|tag| entry.tag == tag);
        match (entry.kind, tables) {
            (Kind::Table, Tables::Keep) => false,
            (Kind::Table, Tables::OfPages) => tagged && overlaps,
            (Kind::Table, Tables::OfTag) => tagged,
            _ if entry.global => globals && overlaps,
            _ => tagged && overlaps,
        }
    }
    fn fill(&mut self, address: u64, entry: Entry) {
        self.now += 1;
        let sizes = self.arrays.iter().flat_map(|array| array.sizes);
        let size = *sizes
            .filter(|&&size| size <= entry.size)
            .max()
            .expect("4 KiB at least");
        let having: Vec<usize> = (0..self.arrays.len())
            .filter(|&array| self.arrays[array].sizes.contains(&size))
            .collect();
        let sets = |array: usize| u64::from(self.arrays[array].entries / self.arrays[array].ways);
        let number = address >> size;
        let last = *having.last().expect("one has it");
        let array = having[(number / sets(last)) as usize % having.len()];
        let base = number << size;
        let piece = Entry {
            base,
            physical: entry.physical + (base - entry.base),
            size,
            ..entry
        };
        let set_of = |entry: &Entry| (entry.base >> entry.size) % sets(array);
        let in_set =
            |(of, entry, _): &(usize, Entry, u64)| *of == array && set_of(entry) == set_of(&piece);
        let members: Vec<usize> = (0..self.entries.len())
            .filter(|&at| in_set(&self.entries[at]))
            .collect();
        if members.len() == self.arrays[array].ways as usize {
            let oldest = members.into_iter().min_by_key(|&at| self.entries[at].2);
            self.entries.remove(oldest.expect("a set has ways"));
        }
        self.entries.push((array, piece, self.now));
    }
}

prop_compose! {
    fn array()(sizes in prop::sample::select(SHAPES), sets in 1u32..5, ways in 1u32..5) -> TlbArray {
        TlbArray { entries: sets * ways, ways, sizes }
    }
}

/// A region of 1 GiB has pages of one size, global or not: so no two entries translate one address.
fn page(address: u64, tag: u16) -> Entry {
    let region = address >> 30;
    let size = [12, 14, 16, 21, 30][(region % 5) as usize];
    let base = address & (u64::MAX << size);
    Entry {
        base,
        physical: base ^ (1 << 40),
        size,
        leaf: size,
        tag,
        global: region >= 5,
        writable: true,
        kind: Kind::Page,
    }
}

fn table(address: u64, tag: u16) -> Entry {
    let base = address & (u64::MAX << 21);
    Entry {
        base,
        physical: base ^ (1 << 41),
        size: 21,
        leaf: 21,
        tag,
        global: false,
        writable: true,
        kind: Kind::Table,
    }
}

/// A flush of a few or of many pages.
fn pages(address: u64) -> impl Strategy<Value = Flush> {
    let bytes = prop::sample::select(&[1u64, 0x1000, 0x5000, 0x1_f000, 0x2_0000, 0x30_0000]);
    let tables = prop::sample::select(&[Tables::Keep, Tables::OfPages, Tables::OfTag]);
    let tag = prop::option::of(0u16..3);
    (bytes, tag, any::<bool>(), tables).prop_map(move |(bytes, tag, globals, tables)| {
        Flush::Pages {
            address,
            bytes,
            tag,
            globals,
            tables,
        }
    })
}

#[derive(Clone, Debug)]
enum Op {
    Use,
    Table,
    Remove,
    Flush(Flush),
}

fn ops() -> impl Strategy<Value = Vec<(u64, u16, Op)>> {
    let address = || {
        (0u64..10, 0u64..12, prop::sample::select(&[12u32, 16, 21]))
            .prop_map(|(region, page, shift)| (region << 30) + (page << shift) + 0x123)
    };
    let flush = prop_oneof![
        1 => Just(Flush::All),
        1 => (0u16..3).prop_map(Flush::Tag),
        5 => address().prop_flat_map(pages),
    ];
    let op = prop_oneof![
        30 => Just(Op::Use),
        5 => Just(Op::Table),
        2 => Just(Op::Remove),
        3 => flush.prop_map(Op::Flush),
    ];
    prop::collection::vec((address(), 0u16..3, op), 1..400)
}

proptest! {
    #[test]
    fn beside_the_reference(mut arrays in prop::collection::vec(array(), 1..4), ops in ops()) {
        // Each level has entries of 4 KiB.
        arrays[0].sizes = SHAPES[3];
        let shape: &'static [TlbArray] = arrays.clone().leak();
        let mut tlb = Tlb::new("tlb", shape).expect("a possible shape");
        let mut slow = Slow { arrays, entries: Vec::new(), now: 0 };
        for (address, tag, op) in ops {
            match op {
                Op::Use => {
                    let expected = slow.find(address, tag, Kind::Page);
                    let last = tlb.last(address, tag).copied();
                    prop_assert!(last.is_none() || last == expected);
                    prop_assert_eq!(tlb.find(address, tag), expected);
                    if let Some(entry) = expected {
                        prop_assert_eq!(entry.physical(address), address ^ (1 << 40));
                    } else {
                        tlb.fill(address, page(address, tag));
                        slow.fill(address, page(address, tag));
                    }
                }
                Op::Table => {
                    let expected = slow.find(address, tag, Kind::Table);
                    prop_assert_eq!(tlb.find_table(address, tag), expected);
                    if expected.is_none() {
                        tlb.fill_table(table(address, tag));
                        slow.fill(address, table(address, tag));
                    }
                }
                Op::Remove => {
                    tlb.remove(address, tag);
                    slow.entries.retain(|(_, entry, _)| {
                        entry.kind == Kind::Table || !entry.translates(address, tag)
                    });
                }
                Op::Flush(flush) => {
                    let before = slow.entries.len();
                    slow.entries.retain(|(_, entry, _)| match flush {
                        Flush::All => false,
                        Flush::Tag(tag) => entry.global || entry.tag != tag,
                        Flush::Pages { .. } => !Slow::drops(&flush, entry),
                    });
                    prop_assert_eq!(tlb.flush(&flush), (before - slow.entries.len()) as u64);
                }
            }
            let key = |entry: &Entry| (entry.base, entry.tag, entry.kind == Kind::Table);
            let mut held: Vec<Entry> = tlb.entries().copied().collect();
            let mut expected: Vec<Entry> = slow.entries.iter().map(|(_, entry, _)| *entry).collect();
            held.sort_by_key(key);
            expected.sort_by_key(key);
            prop_assert_eq!(held, expected);
        }
    }
}

/// Arrays that share a size hold as many of its entries as all of them have.
#[test]
fn arrays_that_share_a_size() {
    let second = models::presets::GOLDEN_COVE.tlb2;
    for (size, room) in [(12, 2048), (21, 1024), (30, 1024)] {
        let mut tlb = Tlb::new("tlb2", second).expect("real");
        for page in 0..room {
            let base = page << size;
            let entry = Entry {
                base,
                physical: base,
                size,
                leaf: size,
                kind: Kind::Page,
                ..Entry::default()
            };
            assert_eq!(tlb.fill(base, entry), size);
        }
        assert_eq!(tlb.entries().count() as u64, room, "{size}");
        assert!((0..room).all(|page| tlb.find(page << size, 0).is_some()));
    }
}

/// Entries that point to tables compete with pages for places; a hit after one counts as a use.
#[test]
fn tables_among_pages() {
    let two_places = const { &[TlbArray::new(2, 2, &[12, 21])] };
    let entry = |base, size, kind| Entry {
        base,
        size,
        leaf: size,
        kind,
        ..Entry::default()
    };
    let mut tlb = Tlb::new("tlb2", two_places).expect("a possible shape");
    let [a, b, c] = [0x1000, 0x2000, 0x3000];
    tlb.fill(a, entry(a, 12, Kind::Page));
    tlb.fill(b, entry(b, 12, Kind::Page));
    assert!(tlb.find(a, 0).is_some());
    tlb.fill_table(entry(0, 21, Kind::Table));
    assert!(tlb.find(b, 0).is_none(), "the table has its place");
    assert!(tlb.find(a, 0).is_some());
    tlb.fill(c, entry(c, 12, Kind::Page));
    assert!(tlb.find_table(a, 0).is_none(), "page a was used after it");
    assert!(tlb.find(a, 0).is_some() && tlb.find(c, 0).is_some());
}

#[test]
fn shapes_that_cannot_be() {
    let no_small_pages = const { &[TlbArray::new(8, 4, &[21])] };
    let no_sets = const { &[TlbArray::new(6, 4, &[12])] };
    for shape in [no_small_pages, no_sets] {
        let error = Tlb::new("dtlb", shape).expect_err("no such TLB");
        assert!(error.to_string().contains("dtlb"), "{error}");
    }
}
