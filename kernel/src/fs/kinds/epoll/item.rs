//! A watched file.

use super::Epoll;
use crate::fs::open::fd::Fd;
use crate::fs::open::file::OpenFile;
use crate::sched::wait::Observer;
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use linux_raw_sys::general as c;

bitflags::bitflags! {
    /// EPOLL*: those of poll(2), and how they are reported.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Events: u32 {
        /// Those of poll(2), EPOLLRDHUP among them.
        const POLL = 0xffff;
        /// EPOLLEXCLUSIVE: of several sets that watch a file, not all need be woken.
        const EXCLUSIVE = 1 << 28;
        /// EPOLLWAKEUP, without effect.
        const WAKEUP = 1 << 29;
        /// EPOLLONESHOT: reported once, then not before it is changed.
        const ONESHOT = c::EPOLLONESHOT;
        /// EPOLLET: edge-triggered, reported once for each wake-up.
        const ET = c::EPOLLET;
        /// EPOLLERR and EPOLLHUP: always reported, whether a program wants them or not.
        const ALWAYS = c::EPOLLERR | c::EPOLLHUP;
        /// What may stand beside EPOLLEXCLUSIVE, and itself.
        const WITH_EXCLUSIVE = Self::EXCLUSIVE.bits() | Self::WAKEUP.bits() | Self::ET.bits()
            | c::EPOLLIN | c::EPOLLOUT | c::EPOLLERR | c::EPOLLHUP;
    }
}

/// `struct epoll_event`.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// What is wanted, or has happened.
    pub events: Events,
    /// The program's own.
    pub data: u64,
}

/// By what an item is found: the descriptor, and the open file behind it. A closed file keeps its
/// address as long as an item knows it.
pub type Key = (i32, usize);

/// The key of an open file under a descriptor.
pub fn key(fd: Fd, file: &Arc<OpenFile>) -> Key {
    (fd.0, Arc::as_ptr(file).addr())
}

/// A watched file. What is said about it changes under the kernel lock, so relaxed accesses will
/// do.
pub struct Item {
    epoll: Weak<Epoll>,
    fd: Fd,
    /// Watching a file does not keep it open.
    file: Weak<OpenFile>,
    events: AtomicU32,
    data: AtomicU64,
    /// It is on the ready list, whose lock orders this.
    listed: AtomicBool,
}

impl Item {
    pub fn new(epoll: Weak<Epoll>, fd: Fd, file: &Arc<OpenFile>, event: Event) -> Arc<Item> {
        Arc::new(Item {
            epoll,
            fd,
            file: Arc::downgrade(file),
            events: AtomicU32::new(event.events.bits()),
            data: AtomicU64::new(event.data),
            listed: AtomicBool::new(false),
        })
    }

    pub fn key(&self) -> Key {
        (self.fd.0, self.file.as_ptr().addr())
    }

    pub fn fd(&self) -> Fd {
        self.fd
    }

    /// `None` once it is closed.
    pub fn file(&self) -> Option<Arc<OpenFile>> {
        self.file.upgrade()
    }

    pub fn is_closed(&self) -> bool {
        self.file.strong_count() == 0
    }

    pub fn event(&self) -> Event {
        Event {
            events: self.events(),
            data: self.data.load(Relaxed),
        }
    }

    pub fn events(&self) -> Events {
        Events::from_bits_retain(self.events.load(Relaxed))
    }

    pub fn want(&self, events: Events) {
        self.events.store(events.bits(), Relaxed);
    }

    pub fn set(&self, event: Event) {
        self.want(event.events);
        self.data.store(event.data, Relaxed);
    }

    /// After its one shot it is not looked at.
    fn is_off(&self) -> bool {
        !self.events().intersects(Events::POLL)
    }

    /// What of its file is to be reported.
    pub fn ready(&self, file: &OpenFile) -> Events {
        if self.is_off() {
            return Events::empty();
        }
        let ready = u32::from(file.ops().poll().bits());
        Events::from_bits_retain(ready) & self.events() & Events::POLL
    }

    /// The answer to epoll_wait(2); an item that has one shot is off now.
    pub fn report(&self, events: Events) -> Event {
        let wanted = self.events();
        if wanted.contains(Events::ONESHOT) {
            self.want(wanted - Events::POLL);
        }
        Event {
            events,
            data: self.data.load(Relaxed),
        }
    }

    /// It goes on the ready list; `false` if it is there.
    pub fn enlist(&self) -> bool {
        !self.listed.swap(true, Relaxed)
    }

    /// It was taken from the list.
    pub fn delist(&self) {
        self.listed.store(false, Relaxed);
    }
}

impl Observer for Item {
    fn woken(self: Arc<Self>, events: u16) {
        let events = Events::from_bits_retain(events.into()) & Events::POLL;
        if self.events().intersects(events)
            && let Some(epoll) = self.epoll.upgrade()
        {
            epoll.mark(self);
        }
    }
}
