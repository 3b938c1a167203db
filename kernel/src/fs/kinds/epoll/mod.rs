//! epoll(7): a set of files, of which those are known that may be ready.
//!
//! Each watched file has an [`Item`], which observes the file's wait queues. A wake-up puts the
//! item on the ready list and wakes those that wait for the set; epoll_wait(2) asks the files on
//! the list, and only those. A file that stays ready goes back on the list unless it is
//! edge-triggered, then it waits for the next wake-up.
//!
//! Locks: `ITEMS` (what is watched), the files' own, `EPOLL_READY` (the list), wait queues. No file
//! is asked with the list locked.

mod item;
mod nesting;

pub use item::{Event, Events};
pub use nesting::epoll_of;

use crate::base::errno::{Errno, Result};
use crate::base::ranks;
use crate::fs::kinds::pseudo::Text;
use crate::fs::open::fd::Fd;
use crate::fs::open::file::OpenFile;
use crate::fs::open::ops::{FileOps, MOST_QUEUES, Ready};
use crate::sched;
use crate::sched::wait::{Observer, WaitQueue};
use alloc::collections::VecDeque;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use item::Item;
use mm::sync::Lock;
use nesting::Nest;

/// Files that are asked between two pauses.
const STEP: usize = 64;
/// Items of one set at most: its list is one piece of the kernel's heap. Linux limits those of a
/// user (max_user_watches), with the same error.
const MOST_ITEMS: usize = 1 << 16;

/// A set of watched files.
pub struct Epoll {
    me: Weak<Epoll>,
    watched: Lock<Watched, { ranks::EPOLL_ITEMS }>,
    /// Items that may be ready, each once. There is room for all: marking one allocates nothing.
    ready: Lock<VecDeque<Arc<Item>>, { ranks::EPOLL_READY }>,
    /// An item has become ready.
    queue: WaitQueue,
    nest: Lock<Nest, { ranks::EPOLL_ITEMS }>,
}

#[derive(Default)]
struct Watched {
    /// In the order of their keys.
    items: Vec<Arc<Item>>,
    /// Items of files that were closed are looked for when there are so many.
    sweep_at: usize,
}

impl Watched {
    /// Fewer are not swept.
    const LEAST: usize = 64;

    fn find(&self, key: item::Key) -> core::result::Result<usize, usize> {
        self.items.binary_search_by_key(&key, |item| item.key())
    }

    /// Forgets files that were closed, once there are twice as many items as were left the last
    /// time.
    fn sweep(&mut self, ready: &mut VecDeque<Arc<Item>>) {
        if self.items.len() >= self.sweep_at.max(Self::LEAST) {
            self.items.retain(|item| !item.is_closed());
            ready.retain(|item| !item.is_closed());
            self.sweep_at = 2 * self.items.len();
        }
    }
}

impl Epoll {
    /// An empty set.
    pub fn new() -> Arc<Epoll> {
        Arc::new_cyclic(|me| Epoll {
            me: me.clone(),
            watched: Lock::new(Watched::default()),
            ready: Lock::new(VecDeque::new()),
            queue: WaitQueue::new(),
            nest: Lock::new(Nest::default()),
        })
    }

    /// EPOLL_CTL_ADD. EINVAL: EPOLLEXCLUSIVE of another set, or with what does not go with it;
    /// ELOOP: sets that watch each other, or too many in each other; EEXIST; ENOSPC: too many
    /// items; ENOMEM.
    pub fn add(&self, fd: Fd, file: &Arc<OpenFile>, event: Event) -> Result {
        let mut queues: Vec<&WaitQueue> = Vec::new();
        fallible::reserve(&mut queues, MOST_QUEUES)?;
        file.ops().queues(&mut queues);
        let inner = epoll_of(file);
        let exclusive = event.events.contains(Events::EXCLUSIVE);
        if exclusive && (inner.is_some() || !Events::WITH_EXCLUSIVE.contains(event.events)) {
            return Err(Errno::EINVAL);
        }
        if let Some(inner) = inner {
            self.contain(inner)?;
        }
        let item = Item::new(self.me.clone(), fd, file, event);
        if let Err(error) = self.enter(&item) {
            inner.inspect(|inner| self.release(inner));
            return Err(error);
        }
        for queue in queues {
            if let Err(error) = queue.observe(Arc::downgrade(&item) as Weak<dyn Observer>) {
                self.remove(fd, file)?;
                return Err(error);
            }
        }
        self.look(&item, file);
        Ok(())
    }

    fn enter(&self, item: &Arc<Item>) -> Result {
        let mut watched = self.watched.lock();
        let mut ready = self.ready.lock();
        watched.sweep(&mut ready);
        let Err(at) = watched.find(item.key()) else {
            return Err(Errno::EEXIST);
        };
        if watched.items.len() >= MOST_ITEMS {
            return Err(Errno::ENOSPC);
        }
        fallible::reserve(&mut watched.items, 1)?;
        let more = (watched.items.len() + 1).saturating_sub(ready.len());
        fallible::reserve(&mut *ready, more)?;
        watched.items.insert(at, item.clone());
        Ok(())
    }

    fn find(&self, fd: Fd, file: &Arc<OpenFile>) -> Result<Arc<Item>> {
        let watched = self.watched.lock();
        let at = watched
            .find(item::key(fd, file))
            .map_err(|_| Errno::ENOENT)?;
        Ok(watched.items[at].clone())
    }

    /// EPOLL_CTL_MOD; ENOENT. EINVAL: EPOLLEXCLUSIVE is for new ones only.
    pub fn change(&self, fd: Fd, file: &Arc<OpenFile>, event: Event) -> Result {
        let item = self.find(fd, file)?;
        if (event.events | item.events()).contains(Events::EXCLUSIVE) {
            return Err(Errno::EINVAL);
        }
        item.set(event);
        self.look(&item, file);
        Ok(())
    }

    /// EPOLL_CTL_DEL; ENOENT.
    pub fn remove(&self, fd: Fd, file: &Arc<OpenFile>) -> Result {
        let mut watched = self.watched.lock();
        let at = watched
            .find(item::key(fd, file))
            .map_err(|_| Errno::ENOENT)?;
        let item = watched.items.remove(at);
        drop(watched);
        if let Some(inner) = epoll_of(file) {
            self.release(inner);
        }
        self.ready.lock().retain(|other| !Arc::ptr_eq(other, &item));
        Ok(())
    }

    /// Marks an item whose file is ready now: it may have been so before it was observed.
    fn look(&self, item: &Arc<Item>, file: &OpenFile) {
        if !item.ready(file).is_empty() {
            self.mark(item.clone());
        }
    }

    /// The item's file may be ready.
    fn mark(&self, item: Arc<Item>) {
        self.put_back(item);
        self.queue.wake_all();
    }

    fn put_back(&self, item: Arc<Item>) {
        let mut ready = self.ready.lock();
        if item.enlist() {
            ready.push_back(item);
        }
    }

    fn pop(&self) -> Option<Arc<Item>> {
        let item = self.ready.lock().pop_front()?;
        item.delist();
        Some(item)
    }

    /// Calls `each` with the files on the ready list that are ready, once with each, while it
    /// returns `true`: with what it returns besides, the item stays on the list.
    fn each_ready(&self, mut each: impl FnMut(&Arc<Item>, Events) -> Next) {
        let count = self.ready.lock().len();
        for n in 1..=count {
            let Some(item) = self.pop() else { return };
            let Some(file) = item.file() else { continue };
            let events = item.ready(&file);
            if events.is_empty() {
                continue;
            }
            let next = each(&item, events);
            if next.keep {
                self.put_back(item);
            }
            if next.end {
                return;
            }
            if n % STEP == 0 {
                sched::breathe();
            }
        }
    }

    /// Waits until a file is ready, or the time is over; at most `most` of them.
    pub fn wait(&self, most: usize, deadline: Option<u64>) -> Result<Vec<Found>> {
        let mut found = Vec::new();
        self.queue.wait(deadline, || {
            self.collect(most, &mut found);
            (!found.is_empty()).then_some(())
        })?;
        Ok(found)
    }

    fn collect(&self, most: usize, found: &mut Vec<Found>) {
        self.each_ready(|item, events| {
            if fallible::reserve(found, 1).is_err() {
                return Next {
                    keep: true,
                    end: true,
                };
            }
            let wanted = item.events();
            found.push(Found {
                event: item.report(events),
                item: item.clone(),
                wanted,
            });
            Next {
                keep: !wanted.intersects(Events::ET | Events::ONESHOT),
                end: found.len() == most,
            }
        });
    }

    /// The program did not get these: they are ready as before.
    pub fn unread(&self, found: &[Found]) {
        for Found { item, wanted, .. } in found {
            item.want(*wanted);
            self.mark(item.clone());
        }
    }
}

/// A file that was ready.
pub struct Found {
    /// For the program.
    pub event: Event,
    item: Arc<Item>,
    wanted: Events,
}

/// What becomes of a file on the ready list, and of the walk.
struct Next {
    keep: bool,
    end: bool,
}

impl Drop for Epoll {
    fn drop(&mut self) {
        self.ready.get_mut().clear();
        let items = &mut self.watched.get_mut().items;
        while let Some(item) = items.pop() {
            drop(item);
            if items.len().is_multiple_of(STEP) {
                sched::breathe();
            }
        }
    }
}

impl FileOps for Epoll {
    fn poll(&self) -> Ready {
        let mut ready = Ready::empty();
        self.each_ready(|_, _| {
            ready = Ready::IN;
            Next {
                keep: true,
                end: true,
            }
        });
        ready
    }

    fn queues<'a>(&'a self, queues: &mut Vec<&'a WaitQueue>) {
        queues.push(&self.queue);
    }

    fn describe(&self, out: &mut Text) {
        for item in self.watched.lock().items.iter().filter(|i| !i.is_closed()) {
            let Event { events, data } = item.event();
            out.put(format_args!(
                "tfd: {:8} events: {:8x} data: {data:16x}\n",
                item.fd().0,
                events.bits()
            ));
        }
    }
}
