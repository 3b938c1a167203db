//! Counts of the page allocator, for /proc.

use super::Allocator;
use super::meta::Kind;
use super::pcp::List;
use super::zone::Zone;
use crate::addr::Order;
use crate::sync::Ordering;

/// Frames by use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocatorCounts {
    /// Frames it was given.
    pub total: u64,
    /// Free frames, those in per-CPU lists included.
    pub free: u64,
    /// Frames in use by [`Kind`].
    pub used: [u64; Kind::COUNT],
    /// Frames handed out since boot.
    pub allocated: u64,
    /// Frames given back since boot.
    pub freed: u64,
}

impl Allocator {
    /// The per-CPU lists, each with its CPU.
    pub fn lists(&self) -> impl Iterator<Item = (usize, &List)> {
        let cpus = self.cpus.iter().enumerate();
        cpus.flat_map(|(cpu, local)| local.lists.iter().map(move |list| (cpu, list)))
    }
    /// Free frames, those in per-CPU lists included. Takes no lock: faults ask.
    pub fn free_frames(&self) -> u64 {
        self.free_in_zones() + self.cpus.iter().map(|cpu| cpu.cached()).sum::<u64>()
    }
    /// Free frames but for those in per-CPU lists.
    fn free_in_zones(&self) -> u64 {
        self.zones.iter().map(|zone| zone.free_frames()).sum()
    }
    /// Frames given back since boot.
    pub(crate) fn freed(&self) -> u64 {
        let freed = self.cpus.iter().flat_map(|cpu| &cpu.freed);
        freed.map(|freed| freed.load(Ordering::Relaxed)).sum()
    }
    /// Whether so many frames are free. Cheaper than their number: the lists rarely decide it.
    pub fn has_free_frames(&self, frames: u64) -> bool {
        self.free_in_zones() >= frames || self.free_frames() >= frames
    }
    /// Free frames that user memory may take.
    pub fn free_for_users(&self) -> u64 {
        self.zones.iter().map(Zone::for_users).sum()
    }
    /// Whether user memory can have a block of this order.
    pub fn has_block(&self, order: Order) -> bool {
        self.zones.iter().any(|zone| zone.has_block(order))
    }
    /// Free frames that user memory leaves alone: the lowest watermarks of all zones.
    pub fn min_free(&self) -> u64 {
        self.zones.iter().map(|zone| zone.marks().min).sum()
    }
    /// Changes that number, which is shared out by the sizes of the zones.
    pub fn set_min_free(&self, frames: u64) {
        let mut left = (frames, self.total);
        for zone in &self.zones {
            let share = left.0 * zone.managed / left.1.max(1);
            zone.set_min(share);
            left = (left.0 - share, left.1 - zone.managed);
        }
    }
    /// Frames by use. Exact while nothing is allocated or freed.
    pub fn counts(&self) -> AllocatorCounts {
        let mut counts = AllocatorCounts {
            total: self.total,
            free: self.free_frames(),
            ..AllocatorCounts::default()
        };
        for cpu in &self.cpus {
            for (kind, used) in counts.used.iter_mut().enumerate() {
                let allocated = cpu.allocated[kind].load(Ordering::Relaxed);
                let freed = cpu.freed[kind].load(Ordering::Relaxed);
                counts.allocated += allocated;
                counts.freed += freed;
                // One CPU may free what another allocated: only the sum over all is a number of
                // frames.
                *used = used.wrapping_add(allocated).wrapping_sub(freed);
            }
        }
        // It lacks what was allocated on one CPU after that was looked at, and freed on another one
        // before.
        for used in &mut counts.used {
            *used = used.cast_signed().max(0).cast_unsigned();
        }
        counts
    }
}
