//! All segments, by number and by key, and the limits of their number and size.
//!
//! A number has an index, the lowest that is free, and a sequence number above it, which goes up
//! when an index is used again: the number of a segment that is gone finds no other for long.

use super::{New, PRIVATE, Segment};
use crate::base::errno::{Errno, Result};
use crate::base::ranks;
use crate::base::room;
use crate::process::task::Process;
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use fallible::SortedMap;
use mm::addr::PAGE_SIZE;
use mm::sync::Lock;

/// The bits of a number that are its index.
pub const ID_BITS: u32 = 15;
/// The highest SHMMNI: there are so many indices.
pub const MAX_SEGMENTS: u64 = 1 << ID_BITS;
/// Sequence numbers, so that a number is positive.
const SEQUENCES: i32 = 1 << (31 - ID_BITS);

/// Limits, as sysctl(8) sets them.
#[derive(Clone, Copy)]
pub struct Limits {
    /// SHMMAX: bytes of a segment.
    pub max_size: u64,
    /// SHMALL: pages of all segments.
    pub all_pages: u64,
    /// SHMMNI: segments.
    pub segments: u64,
}

/// What all segments have together.
#[derive(Clone, Copy, Default)]
pub struct Totals {
    /// Segments.
    pub segments: u64,
    /// Their sizes, in pages.
    pub pages: u64,
    /// Pages that are in memory.
    pub resident: u64,
}

struct Slot {
    segment: Weak<Segment>,
    /// Until IPC_RMID.
    kept: Option<Arc<Segment>>,
}

struct Table {
    slots: SortedMap<u32, Slot>,
    /// Indices by key.
    keys: SortedMap<i32, u32>,
    pages: u64,
    limits: Limits,
    /// Of the number that was given last.
    sequence: i32,
    index: Option<u32>,
}

/// No limit, as far as there is none in Linux.
const UNLIMITED: u64 = u64::MAX - (1 << 24);

static TABLE: Lock<Table, { ranks::SHM_TABLE }> = Lock::new(Table {
    slots: SortedMap::new(),
    keys: SortedMap::new(),
    pages: 0,
    limits: Limits {
        max_size: UNLIMITED,
        all_pages: UNLIMITED,
        segments: 4096,
    },
    sequence: 0,
    index: None,
});

/// How many segments there are.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Whether there is any segment.
#[inline]
pub fn is_used() -> bool {
    // Relaxed: who attaches one has made it, or been told of it.
    COUNT.load(Relaxed) != 0
}

/// The limits.
pub fn limits() -> Limits {
    TABLE.lock().limits
}

/// Changes the limits, for segments that are made from now on.
pub fn set_limits(f: impl FnOnce(&mut Limits)) {
    f(&mut TABLE.lock().limits);
}

impl Table {
    /// The lowest index that is free.
    fn free_index(&self) -> u32 {
        let taken = self.slots.iter();
        let before = (0..).zip(taken).take_while(|(n, (index, _))| n == *index);
        before.count() as u32
    }

    /// The number of the next segment: ENOSPC when there are enough, or too many pages.
    fn next_id(&mut self, pages: u64) -> Result<(u32, i32)> {
        let all = self.pages.checked_add(pages);
        let fits = all.is_some_and(|all| all <= self.limits.all_pages);
        if !fits || self.slots.len() as u64 >= self.limits.segments {
            return Err(Errno::ENOSPC);
        }
        let index = self.free_index();
        let again = self.index.is_some_and(|last| index <= last);
        let sequence = (self.sequence + i32::from(again)) % SEQUENCES;
        (self.index, self.sequence) = (Some(index), sequence);
        Ok((index, sequence << ID_BITS | index as i32))
    }
}

/// shmget(2): the number of the segment that the key finds, or of a new one. EEXIST, ENOENT;
/// EINVAL: the size is 0 or over the limit, or that of the old segment is less; ENOSPC: a limit of
/// all segments; ENOMEM.
pub fn get(new: &New, create: bool, exclusive: bool, creator: &Process) -> Result<i32> {
    if new.key != PRIVATE {
        match by_key(new.key) {
            Some(_) if create && exclusive => return Err(Errno::EEXIST),
            Some(old) if old.size < new.size => return Err(Errno::EINVAL),
            Some(old) => return Ok(old.id()),
            None if !create => return Err(Errno::ENOENT),
            None => {}
        }
    }
    if new.size == 0 || new.size > limits().max_size {
        return Err(Errno::EINVAL);
    }
    enter(new, creator)
}

fn enter(new: &New, creator: &Process) -> Result<i32> {
    room::check(Errno::ENOMEM)?;
    let (index, id) = TABLE.lock().next_id(new.size.div_ceil(PAGE_SIZE))?;
    let segment = Arc::new(Segment::new(new, id, creator)?);
    let mut table = TABLE.lock();
    fallible::reserve(&mut table.slots, 1)?;
    fallible::reserve(&mut table.keys, 1)?;
    // There is room: nothing fails below.
    if new.key != PRIVATE {
        table.keys.insert(new.key, index)?;
    }
    table.pages += segment.pages();
    let slot = Slot {
        segment: Arc::downgrade(&segment),
        kept: Some(segment),
    };
    table.slots.insert(index, slot)?;
    COUNT.store(table.slots.len(), Relaxed);
    Ok(id)
}

/// Takes a segment that is no more off the table, if it is there.
pub(super) fn forget(segment: &Segment) {
    let mut table = TABLE.lock();
    let index = index_of(segment.id());
    let own = |slot: &Slot| core::ptr::eq(slot.segment.as_ptr(), segment);
    if table.slots.get(&index).is_some_and(own) {
        let _slot = table.slots.remove(&index);
        table.pages -= segment.pages();
        COUNT.store(table.slots.len(), Relaxed);
    }
}

fn index_of(id: i32) -> u32 {
    id as u32 & (MAX_SEGMENTS as u32 - 1)
}

fn by_key(key: i32) -> Option<Arc<Segment>> {
    let table = TABLE.lock();
    let index = table.keys.get(&key)?;
    table.slots.get(index)?.segment.upgrade()
}

/// The segment with a number. EINVAL: there is none; EIDRM: its index has another one.
pub fn by_id(id: i32) -> Result<Arc<Segment>> {
    let segment = at_index(id)?;
    match segment.id() == id {
        true => Ok(segment),
        false => Err(Errno::EIDRM),
    }
}

/// The segment that has the index of a number, SHM_STAT. EINVAL.
pub fn at_index(id: i32) -> Result<Arc<Segment>> {
    let index = u32::try_from(id).map(|_| index_of(id));
    let index = index.map_err(|_| Errno::EINVAL)?;
    let table = TABLE.lock();
    let slot = table.slots.get(&index).ok_or(Errno::EINVAL)?;
    slot.segment.upgrade().ok_or(Errno::EINVAL)
}

/// The first segment from an index on, with its index.
pub fn from_index(from: u32) -> Option<(u32, Arc<Segment>)> {
    let table = TABLE.lock();
    let mut rest = table.slots.from(&from);
    rest.find_map(|(index, slot)| Some((*index, slot.segment.upgrade()?)))
}

/// The highest index of a segment; 0 if there is none.
pub fn highest_index() -> u32 {
    let table = TABLE.lock();
    table
        .slots
        .iter()
        .next_back()
        .map_or(0, |(index, _)| *index)
}

/// What all segments have together.
pub fn totals() -> Totals {
    let mut totals = Totals::default();
    let mut next = 0;
    while let Some((index, segment)) = from_index(next) {
        totals.segments += 1;
        totals.pages += segment.pages();
        totals.resident += segment.resident();
        next = index + 1;
    }
    totals
}

/// IPC_RMID: the segment is found by its number only, as long as it is attached.
pub fn remove(segment: &Segment) {
    let mut table = TABLE.lock();
    let key = segment.key();
    if key != PRIVATE {
        table.keys.remove(&key);
    }
    segment.change(|state| state.removed = true);
    let slot = table.slots.get_mut(&index_of(segment.id()));
    let kept = slot.and_then(|slot| slot.kept.take());
    // It may be the last reference: dropped without the lock.
    drop(table);
    drop(kept);
}
