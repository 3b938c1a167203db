//! Sockets of unix(7): as a stream, message by message, or as datagrams; with a name or without.
//!
//! An [`Endpoint`] is what is connected and named; a [`Socket`] is the open file that it is behind,
//! and closes it. One endpoint's lock is held at a time: what a call changes in two of them, no
//! other call sees in between, for the kernel lock is held and nothing pauses.

mod connect;
mod inbox;
mod names;
mod options;
mod rights;
mod transfer;

pub use connect::pair;
pub use inbox::Companions;
pub use names::{Key, Name, find};
pub use options::{OptionValue, Options};
pub use rights::Rights;
pub use transfer::{How, Outgoing, Received};

use crate::base::errno::{Errno, Result};
use crate::base::ranks;
use crate::base::uaccess;
use crate::fs::caller::Creator;
use crate::fs::kinds::anonymous;
use crate::fs::open::file::OpenFile;
use crate::fs::open::flags::OpenFlags;
use crate::fs::open::io::{Sink, Source};
use crate::fs::open::ops::{At, FileOps, Ready};
use crate::fs::tree::inode::{FileKind, Inode, Node};
use crate::sched;
use crate::sched::wait::WaitQueue;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::any::Any;
use inbox::Inbox;
use linux_raw_sys::ioctl::FIONREAD;
use mm::sync::Lock;
use names::Bound;

/// Communication style.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Style {
    /// SOCK_STREAM: bytes.
    Stream,
    /// SOCK_DGRAM: messages; the end of the other side is not reported.
    Datagram,
    /// SOCK_SEQPACKET: messages, and an end.
    Packets,
}

/// Connections that are closed between two pauses.
const STEP: usize = 64;

/// Connections that wait to be accepted, and how many may.
struct Backlog {
    waiting: VecDeque<Arc<Endpoint>>,
    most: usize,
}

#[derive(Default)]
struct State {
    inbox: Inbox,
    /// It is closed.
    gone: bool,
    /// A sender waits for room.
    wanted: bool,
    /// Nothing will come any more: shut down, or the other side can send no more.
    receive_shutdown: bool,
    /// It can send no more.
    send_shutdown: bool,
    /// The other side was closed with unread bytes: ECONNRESET of the next call.
    reset: bool,
    options: Options,
    /// The other side of a connection; where datagrams go and from where alone they come.
    peer: Option<Weak<Endpoint>>,
    /// The other side's process, SO_PEERCRED.
    peer_process: Option<Creator>,
    name: Option<Name>,
    /// By what others find it.
    bound: Option<Bound>,
    /// listen(2).
    backlog: Option<Backlog>,
}

/// What an open socket is about.
pub struct Endpoint {
    me: Weak<Endpoint>,
    style: Style,
    state: Lock<State, { ranks::PIPE }>,
    /// Bytes, room, a connection, or an end.
    changed: WaitQueue,
}

/// A datagram was received from a socket that was full: senders may be anybody.
static ROOM: WaitQueue = WaitQueue::new();

/// An open socket; dropped, it closes the endpoint.
pub struct Socket(Arc<Endpoint>);

struct SocketInode(Node);

impl Inode for SocketInode {
    fn node(&self) -> &Node {
        &self.0
    }
    fn open(self: Arc<Self>, _flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
        Err(Errno::ENXIO)
    }
    fn label(&self) -> Option<String> {
        Some(format!("socket:[{}]", self.0.number))
    }
}

/// The endpoint behind an open file, if that is a socket.
pub fn endpoint_of(file: &Arc<OpenFile>) -> Option<&Arc<Endpoint>> {
    let ops: &dyn Any = file.ops();
    ops.downcast_ref::<Socket>().map(|socket| &socket.0)
}

/// An open file for an endpoint, which has none yet.
pub fn open(endpoint: Arc<Endpoint>, nonblocking: bool) -> Arc<OpenFile> {
    let node = Node::new(anonymous::device(), FileKind::Socket, 0o777);
    let mut flags = OpenFlags::RDWR;
    flags.set(OpenFlags::NONBLOCK, nonblocking);
    let place = anonymous::place(Arc::new(SocketInode(node)));
    OpenFile::new(place, Arc::new(Socket(endpoint)), flags)
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.0.close();
        rights::collect();
    }
}

/// The directions of shutdown(2).
#[derive(Clone, Copy)]
pub struct Directions {
    /// SHUT_RD, SHUT_RDWR.
    pub receive: bool,
    /// SHUT_WR, SHUT_RDWR.
    pub send: bool,
}

impl Endpoint {
    /// A socket that is neither connected nor named. ENOMEM.
    pub fn new(style: Style) -> Result<Arc<Endpoint>> {
        crate::base::room::check(Errno::ENOMEM)?;
        Ok(Arc::new_cyclic(|me| Endpoint {
            me: me.clone(),
            style,
            state: Lock::new(State::default()),
            changed: WaitQueue::new(),
        }))
    }

    /// Its communication style.
    pub fn style(&self) -> Style {
        self.style
    }

    /// The process on the other side.
    pub fn peer_process(&self) -> Creator {
        self.state.lock().peer_process.unwrap_or(Creator::NOBODY)
    }

    /// Its name, getsockname(2); `None` without one.
    pub fn name(&self) -> Option<Name> {
        self.state.lock().name.clone()
    }

    /// The other side's name, getpeername(2). ENOTCONN.
    pub fn peer_name(&self) -> Result<Option<Name>> {
        let state = self.state.lock();
        let peer = state.peer.clone().ok_or(Errno::ENOTCONN)?;
        drop(state);
        Ok(peer.upgrade().and_then(|peer| peer.name()))
    }

    /// Its options.
    pub fn options<R>(&self, f: impl FnOnce(&mut Options) -> R) -> R {
        f(&mut self.state.lock().options)
    }

    /// getsockopt(2) of SOL_SOCKET. ENOPROTOOPT.
    pub fn option(&self, option: u32) -> Result<OptionValue> {
        let state = &mut *self.state.lock();
        match option {
            options::SO_ACCEPTCONN => Ok(OptionValue::Number(state.backlog.is_some().into())),
            options::SO_ERROR => {
                let error = match core::mem::take(&mut state.reset) {
                    true => Errno::ECONNRESET.0,
                    false => 0,
                };
                Ok(OptionValue::Number(error))
            }
            _ => state.options.get(self.style, option),
        }
    }

    /// The other side, unless it is not connected or that is closed.
    fn peer(&self) -> Option<Arc<Endpoint>> {
        self.state.lock().peer.as_ref().and_then(Weak::upgrade)
    }

    /// Whether `other` is its other side.
    fn is_peer(&self, other: &Endpoint) -> bool {
        let state = self.state.lock();
        state
            .peer
            .as_ref()
            .is_some_and(|peer| peer.ptr_eq(&other.me))
    }

    fn tell(&self, what: Ready) {
        self.changed.wake_for(what.bits());
    }

    /// shutdown(2): this side receives or sends no more; of connected sockets the other side is
    /// notified.
    pub fn shut_down(&self, ends: Directions) {
        let mut state = self.state.lock();
        state.receive_shutdown |= ends.receive;
        state.send_shutdown |= ends.send;
        drop(state);
        self.changed.wake_all();
        if self.style != Style::Datagram
            && let Some(peer) = self.peer()
        {
            let mut state = peer.state.lock();
            state.send_shutdown |= ends.receive;
            state.receive_shutdown |= ends.send;
            drop(state);
            peer.changed.wake_all();
        }
    }

    /// The last descriptor is closed.
    fn close(&self) {
        let mut state = self.state.lock();
        let inbox = core::mem::take(&mut state.inbox);
        let (backlog, bound) = (state.backlog.take(), state.bound.take());
        let peer = state.peer.clone();
        state.gone = true;
        drop(state);
        self.changed.wake_all();
        drop(bound);
        if self.style == Style::Datagram {
            ROOM.wake_all();
        } else if let Some(peer) = peer.and_then(|peer| peer.upgrade()) {
            peer.lose(!inbox.is_empty());
        }
        // Connections that nobody accepted: the other side learns it as of unread bytes.
        let waiting = backlog.into_iter().flat_map(|backlog| backlog.waiting);
        for (n, embryo) in waiting.enumerate() {
            if let Some(peer) = embryo.peer() {
                peer.lose(true);
            }
            embryo.empty();
            if n % STEP == STEP - 1 {
                sched::breathe();
            }
        }
    }

    /// The other side is closed, with unread bytes or without.
    fn lose(&self, unread: bool) {
        let mut state = self.state.lock();
        (state.receive_shutdown, state.send_shutdown) = (true, true);
        state.reset |= unread;
        drop(state);
        self.changed.wake_all();
    }

    /// Drops all messages.
    fn empty(&self) {
        let mut nth = 0;
        while let Some(embryo) = self.embryo(nth) {
            let inbox = core::mem::take(&mut embryo.state.lock().inbox);
            drop(inbox);
            nth += 1;
        }
        let inbox = core::mem::take(&mut self.state.lock().inbox);
        drop(inbox);
    }

    /// A connection that waits to be accepted.
    fn embryo(&self, nth: usize) -> Option<Arc<Endpoint>> {
        let state = self.state.lock();
        state.backlog.as_ref()?.waiting.get(nth).cloned()
    }

    /// Calls `f` with its messages, and with those of connections that wait to be accepted.
    fn each_inbox(&self, f: &mut dyn FnMut(&Inbox)) {
        f(&self.state.lock().inbox);
        let mut nth = 0;
        while let Some(embryo) = self.embryo(nth) {
            f(&embryo.state.lock().inbox);
            nth += 1;
        }
    }
}

impl FileOps for Socket {
    fn read(&self, at: At, sink: &mut Sink<'_>) -> Result<usize> {
        if self.0.style == Style::Stream && sink.left() == 0 {
            return Ok(0);
        }
        let received = self.0.receive(How::waiting(!at.nonblocking), sink)?;
        Ok(received.bytes)
    }

    fn write(&self, at: At, source: &mut Source<'_>) -> Result<usize> {
        let how = How::waiting(!at.nonblocking);
        self.0.send(how, source, Outgoing::default())
    }

    fn is_stream(&self) -> bool {
        true
    }

    fn poll(&self) -> Ready {
        self.0.poll()
    }

    fn queues<'a>(&'a self, queues: &mut Vec<&'a WaitQueue>) {
        queues.push(&self.0.changed);
        if self.0.style == Style::Datagram {
            queues.push(&ROOM);
        }
    }

    fn ioctl(&self, command: u32, argument: u64) -> Result<u64> {
        match command {
            FIONREAD => {
                let n = {
                    let inbox = &self.0.state.lock().inbox;
                    match self.0.style {
                        Style::Datagram => inbox.first(),
                        _ => inbox.bytes(),
                    }
                };
                uaccess::write(argument, &(n as i32))?;
                Ok(0)
            }
            _ => Err(Errno::ENOTTY),
        }
    }
}
