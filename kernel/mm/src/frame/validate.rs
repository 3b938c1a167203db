//! Checks of the whole allocator, for tests: they panic with what is wrong.

use super::allocator::Allocator;
use super::buddy::Buddy;
use super::meta::{Kind, MAX_ORDER};
use super::pageblock::Mobility;
use super::pcp::List;
use super::table::FrameTable;
use crate::addr::{Order, Pfn, PfnRange};
use alloc::vec::Vec;

impl Buddy {
    /// Walks every list: links agree both ways, blocks are aligned, marked free, in the list of
    /// their pageblock and not mergeable; sums match. Panics with what is wrong.
    pub fn validate(&self, table: &FrameTable, span: PfnRange) {
        let mut sum = 0;
        for home in Mobility::ALL {
            for order in (0..=MAX_ORDER.0).map(Order) {
                sum += self.validate_list(table, order, home) * order.pages();
            }
        }
        assert!(
            sum == self.free_frames(),
            "{sum} frames are in the lists, {} are counted",
            self.free_frames()
        );
        let heads: u64 = table
            .iter()
            .filter(|(pfn, m)| span.contains(*pfn) && m.is_free())
            .map(|(_, m)| m.order().pages())
            .sum();
        assert!(
            heads == sum,
            "{heads} frames are marked free, {sum} are in the lists"
        );
    }

    /// Checks one list; returns its length.
    fn validate_list(&self, table: &FrameTable, order: Order, home: Mobility) -> u64 {
        let lists = &self.lists[home as usize];
        let mut length = 0;
        for pfn in lists.free[order.0 as usize].iter(table) {
            let meta = table.get(pfn);
            let place = format_args!("{pfn:?} in the {home:?} list of order {}", order.0);
            assert!(meta.is(Kind::Free, order), "{place} is {meta:?}");
            assert!(pfn.0 & (order.pages() - 1) == 0, "{place} is not aligned");
            assert!(self.home(pfn, order) == home, "{place} is in the wrong one");
            let buddy = table.near(Pfn(pfn.0 ^ order.pages()));
            let mergeable = buddy.is_some_and(|b| b.is(Kind::Free, order));
            assert!(order == MAX_ORDER || !mergeable, "{place} was not merged");
            length += 1;
        }
        let marked = lists.nonempty & 1 << order.0 != 0;
        assert!(
            length == lists.blocks[order.0 as usize] && marked == (length != 0),
            "the {home:?} list of order {} has {length} blocks, {} are counted",
            order.0,
            lists.blocks[order.0 as usize]
        );
        length
    }
}

impl Allocator {
    /// Checks that every frame is in one zone's free list, in one CPU's list, or counted as used.
    /// Must not run concurrently with allocations.
    pub fn validate(&self) {
        let table = &self.table;
        for zone in self.zones() {
            zone.look(|buddy| buddy.validate(table, zone.span));
        }
        self.validate_lists();
        let mut used = [0; Kind::COUNT];
        for (_, meta) in table.iter().filter(|(_, m)| m.kind().in_use()) {
            // The allocator has handed out a huge page to its pool.
            let kind = match meta.is_hugetlb() {
                true => Kind::Hugetlb,
                false => meta.kind(),
            };
            used[kind as usize] += meta.order().pages();
        }
        let counts = self.counts();
        assert!(
            used == counts.used,
            "frames in use by kind: counted {:?}, marked {used:?}",
            counts.used
        );
        let sum = used.iter().sum::<u64>() + counts.free;
        assert!(
            sum == counts.total,
            "{sum} frames are free or used, {} exist",
            counts.total
        );
    }

    /// The heap may be on these frames: it is asked for room before the lists are read.
    fn validate_lists(&self) {
        let table = &self.table;
        let lists = || self.cpus.iter().flat_map(|cpu| &cpu.lists);
        let mut listed = Vec::with_capacity(lists().map(List::capacity).sum());
        for list in lists() {
            for index in list.blocks() {
                let meta = table.at(index);
                let pfn = table.pfn(index);
                assert!(
                    meta.is_cached(list.order) && meta.refs() == 0,
                    "{pfn:?} in a list of order {} is {meta:?}",
                    list.order.0
                );
                listed.push(pfn);
            }
        }
        listed.sort_unstable();
        let twice = listed.windows(2).find(|pair| pair[0] == pair[1]);
        assert!(twice.is_none(), "{twice:?} is in two lists");
        let marked = table.iter().filter(|(_, m)| m.is_cached(m.order())).count();
        assert!(
            marked == listed.len(),
            "{marked} blocks are marked cached, {} are in lists",
            listed.len()
        );
    }
}
