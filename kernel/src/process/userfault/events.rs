//! Changes of registered memory that a monitor is told of: UFFD_EVENT_FORK, REMAP, REMOVE, UNMAP.
//!
//! The thread that makes the change waits until the monitor has read of it. Until then nothing is
//! filled: an answer to a fault could be about memory that is not the same any more.

use super::{Features, Message, Monitor, file_of, numbers};
use crate::base::errno::Result;
use crate::base::machine::{AddressSpace, Space};
use crate::fs::open::ops::Ready;
use crate::process::task;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use mm::addr::{VirtAddr, VirtRange};

/// How many monitors are told of changes.
static TOLD: AtomicUsize = AtomicUsize::new(0);

/// Whether any monitor is told of changes.
#[inline]
pub fn are_told() -> bool {
    // Relaxed: who registers memory and changes it at once, on two CPUs, orders that.
    TOLD.load(Ordering::Relaxed) != 0
}

/// An event, until it is read.
pub(super) struct Event {
    message: Message,
    /// The monitor of a child, for UFFD_EVENT_FORK: its file is made by the reader.
    child: Option<Arc<Monitor>>,
    read: AtomicBool,
}

/// `struct uffd_msg` with up to three numbers.
fn message(event: u8, words: [u64; 3]) -> Message {
    let mut message = [0; 32];
    message[0] = event;
    for (at, word) in (8..).step_by(8).zip(words) {
        message[at..at + 8].copy_from_slice(&word.to_ne_bytes());
    }
    message
}

/// A change of memory.
#[derive(Clone, Copy)]
pub enum Change {
    /// Pages are about to be dropped.
    Remove,
    /// The memory is no more.
    Unmap,
    /// It was moved by so many bytes, modulo 2^64.
    Remap(u64),
}

impl Change {
    fn feature(self) -> Features {
        match self {
            Change::Remove => Features::EVENT_REMOVE,
            Change::Unmap => Features::EVENT_UNMAP,
            Change::Remap(_) => Features::EVENT_REMAP,
        }
    }
    fn message(self, range: VirtRange) -> Message {
        let (start, end) = (range.start.0, range.end.0);
        match self {
            Change::Remove => message(0x15, [start, end, 0]),
            Change::Unmap => message(0x16, [start, end, 0]),
            Change::Remap(by) => message(0x14, [start, start.wrapping_add(by), range.len()]),
        }
    }
}

/// Monitors that are to be told of a change of their memory. Until that is done they fill nothing.
pub struct Concerned(Vec<(Arc<Monitor>, VirtRange, Change)>);

impl Concerned {
    /// None.
    pub fn new() -> Concerned {
        Concerned(Vec::new())
    }

    /// Adds those of the memory in `range`. ENOMEM.
    pub fn add(&mut self, space: &AddressSpace, range: VirtRange, change: Change) -> Result {
        let mut rest = range;
        while !rest.is_empty()
            && let Some((number, part)) = space.next_monitored(rest)
        {
            rest.start = part.end;
            let monitor = numbers::find(number);
            let told = |it: &Arc<Monitor>| it.features().contains(change.feature());
            if let Some(monitor) = monitor.filter(told) {
                fallible::reserve(&mut self.0, 1)?;
                monitor.begin_change();
                self.0.push((monitor, part, change));
            }
        }
        Ok(())
    }

    /// Tells them, and waits until they have read it.
    pub fn tell(mut self) {
        for (monitor, range, change) in core::mem::take(&mut self.0) {
            monitor.tell(change.message(range), None);
            monitor.changes.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Concerned {
    /// The change was not made.
    fn drop(&mut self) {
        for (monitor, ..) in &self.0 {
            monitor.changes.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Monitor {
    /// It has its features: some are about changes.
    pub(super) fn begin_events(&self) {
        if self.features().intersects(Features::EVENTS) {
            TOLD.fetch_add(1, Ordering::Relaxed);
        }
    }
    /// Its file is closed: nobody reads what is left.
    pub(super) fn end_events(&self) {
        if self.features().intersects(Features::EVENTS) {
            TOLD.fetch_sub(1, Ordering::Relaxed);
        }
        let left = core::mem::take(&mut *self.events.lock());
        for event in &left {
            event.read.store(true, Ordering::Release);
            if let Some(child) = &event.child {
                child.close();
            }
        }
        self.told.wake_all();
    }

    /// A change of its memory begins, before the locks that it takes.
    fn begin_change(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.changes.fetch_add(1, Ordering::Relaxed);
    }
    /// Whether a change of its memory is being made.
    pub(super) fn is_changing(&self) -> bool {
        self.changes.load(Ordering::Relaxed) != 0
    }
    /// Whether one was begun since this is called, at any time after that: a copy that goes on with
    /// what it was asked for would mix old and new.
    pub(super) fn watch_changes(&self) -> impl Fn() -> bool {
        let begun = self.begun.load(Ordering::Relaxed);
        move || self.begun.load(Ordering::Relaxed) != begun || self.is_changing()
    }

    /// Enters an event and waits until it is read, the file is closed, or the thread is to end.
    fn tell(&self, message: Message, child: Option<Arc<Monitor>>) {
        let event = Arc::new(Event {
            message,
            child,
            read: AtomicBool::new(false),
        });
        let entered = {
            let open = self.questions.lock().is_some();
            open && fallible::push(&mut *self.events.lock(), event.clone()).is_ok()
        };
        if entered {
            self.readable.wake_for(Ready::IN.bits());
            // Pairs with the stores of those that read it or close the file.
            let is_read = || event.read.load(Ordering::Acquire).then_some(());
            let is_closed = || self.questions.lock().is_none().then_some(());
            let _ = self.told.wait_killable(|| is_read().or_else(is_closed));
        }
        let left = !event.read.load(Ordering::Acquire);
        if left {
            self.events.lock().retain(|it| !Arc::ptr_eq(it, &event));
        }
        if let Some(child) = event.child.as_ref().filter(|_| left) {
            child.close();
        }
    }

    /// Takes the first event. The file of a child's monitor is made for the running thread.
    pub(super) fn take_event(&self) -> Option<Result<Message>> {
        let event = {
            let mut events = self.events.lock();
            (!events.is_empty()).then(|| events.remove(0))?
        };
        let mut message = event.message;
        let result = match &event.child {
            None => Ok(()),
            Some(child) => child.give_file().map(|fd| {
                message[8..12].copy_from_slice(&fd.to_ne_bytes());
            }),
        };
        event.read.store(true, Ordering::Release);
        self.told.wake_all();
        Some(result.map(|()| message))
    }

    /// A descriptor of the file of a monitor that has none yet. Without one the monitor is no more.
    fn give_file(self: &Arc<Self>) -> Result<i32> {
        let file = file_of(self.clone(), self.nonblocking);
        let fd = task::current().files().install(file, self.close_on_exec)?;
        Ok(fd.0)
    }
}

/// After a fork, before the child runs: its memory has monitors of its own where the parent's want
/// that, and those are told.
pub fn forked(child: &Space) {
    let mut pairs: Vec<(Arc<Monitor>, Arc<Monitor>)> = Vec::new();
    child.userfault_adopt(|number| {
        let known = pairs.iter().find(|(old, _)| old.number == number);
        if let Some((_, new)) = known {
            return new.number;
        }
        let made = numbers::find(number)
            .filter(|old| old.features().contains(Features::EVENT_FORK))
            .and_then(|old| {
                fallible::reserve(&mut pairs, 1).ok()?;
                let space = child.downgrade();
                let new = numbers::enter(|number| Monitor::like(&old, number, space)).ok()?;
                Some((old, new))
            });
        made.map_or(0, |(old, new)| {
            let number = new.number;
            pairs.push((old, new));
            number
        })
    });
    for (old, new) in pairs {
        new.begin_events();
        old.begin_change();
        old.tell(message(0x13, [0; 3]), Some(new));
        old.changes.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Calls `f`, which moves memory from `from`, or replaces what is at its target; tells of what was
/// moved and what is no more.
pub fn while_moving(
    space: &AddressSpace,
    from: VirtRange,
    new_len: u64,
    target: Option<VirtAddr>,
    f: impl FnOnce() -> Result<VirtAddr>,
) -> Result<VirtAddr> {
    let (mut tail, mut replaced) = (Concerned::new(), Concerned::new());
    let kept = VirtRange::new(from.start, from.start + from.len().min(new_len));
    tail.add(space, VirtRange::new(kept.end, from.end), Change::Unmap)?;
    if let Some(target) = target
        && let Some(end) = target.checked_add(new_len)
    {
        replaced.add(space, VirtRange::new(target, end), Change::Unmap)?;
    }
    let mut moved = Concerned::new();
    moved.add(space, kept, Change::Remap(0))?;
    let at = f()?;
    if at == from.start {
        drop(moved);
    } else {
        let by = at.0.wrapping_sub(from.start.0);
        moved.0.iter_mut().for_each(|it| it.2 = Change::Remap(by));
        moved.tell();
    }
    tail.tell();
    replaced.tell();
    Ok(at)
}
