//! Pairs of sockets without a name, unix(7): what one side writes the other reads, as a stream or message by message.

use crate::errno::{Errno, Result};
use crate::fs::anonymous;
use crate::fs::file::{At, FileOps, Ready};
use crate::fs::inode::{Inode, Kind, Node};
use crate::fs::io::{Sink, Source};
use crate::fs::process;
use crate::pressure::room;
use crate::ranks;
use crate::uaccess;
use crate::wait::WaitQueue;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use linux_raw_sys::general as c;
use linux_raw_sys::ioctl::FIONREAD;
use mm::sync::Lock;

/// What one side may have before the other reads it.
const CAPACITY: usize = 208 << 10;
/// What a message takes besides its bytes, so that empty ones have an end too.
const OVERHEAD: usize = 64;
/// Streams go in pieces of at most this size.
const PIECE: usize = 16 << 10;

/// How a pair transfers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// SOCK_STREAM: bytes.
    Stream,
    /// SOCK_DGRAM: messages; the other side's end is not noticed.
    Datagram,
    /// SOCK_SEQPACKET: messages, and an end.
    Packets,
}

/// What one side has got and not read.
#[derive(Default)]
struct Inbox {
    messages: VecDeque<Vec<u8>>,
    /// Bytes of the first that were read (of a stream).
    used: usize,
    /// How much of the capacity it takes.
    taken: usize,
}

impl Inbox {
    fn bytes(&self) -> usize {
        self.taken - OVERHEAD * self.messages.len()
    }

    fn push(&mut self, message: Vec<u8>) -> Result {
        fallible::reserve(&mut self.messages, 1)?;
        self.taken += message.len() + OVERHEAD;
        self.messages.push_back(message);
        Ok(())
    }

    fn pop(&mut self) -> Option<Vec<u8>> {
        let message = self.messages.pop_front()?;
        self.taken -= message.len() - self.used + OVERHEAD;
        self.used = 0;
        Some(message)
    }

    /// Takes bytes across messages.
    fn take(&mut self, into: &mut [u8]) -> usize {
        let mut done = 0;
        while done < into.len()
            && let Some(first) = self.messages.front()
        {
            let rest = &first[self.used..];
            let n = rest.len().min(into.len() - done);
            into[done..done + n].copy_from_slice(&rest[..n]);
            done += n;
            if n == rest.len() {
                self.pop();
            } else {
                (self.used, self.taken) = (self.used + n, self.taken - n);
            }
        }
        done
    }

    /// Puts bytes in front that were just taken; without memory they are lost, as if they had been read.
    fn put_back(&mut self, bytes: &[u8]) {
        let used = core::mem::take(&mut self.used);
        if let Some(first) = self.messages.front_mut() {
            first.drain(..used);
        }
        if let Ok(bytes) = fallible::copied(bytes)
            && fallible::reserve(&mut self.messages, 1).is_ok()
        {
            self.taken += bytes.len() + OVERHEAD;
            self.messages.push_front(bytes);
        }
    }
}

#[derive(Default)]
struct Side {
    inbox: Inbox,
    gone: bool,
    /// The other side went without reading all: told once.
    reset: bool,
}

/// Both sides.
struct Pair {
    style: Style,
    sides: Lock<[Side; 2], { ranks::PIPE }>,
    /// Something changed for a side: bytes or room or an end.
    changed: [WaitQueue; 2],
}

/// One side of a pair.
pub struct Socket {
    pair: Arc<Pair>,
    me: usize,
}

struct SocketInode(Node);

impl Inode for SocketInode {
    fn node(&self) -> &Node {
        &self.0
    }
    fn open(self: Arc<Self>, _flags: u32) -> Result<Arc<dyn FileOps>> {
        Err(Errno::ENXIO)
    }
    fn label(&self) -> Option<String> {
        Some(format!("socket:[{}]", self.0.number))
    }
}

/// Two sockets that are connected, each with its inode.
pub fn pair(style: Style) -> [(Arc<dyn Inode>, Arc<Socket>); 2] {
    let pair = Arc::new(Pair {
        style,
        sides: Lock::new(Default::default()),
        changed: [WaitQueue::new(), WaitQueue::new()],
    });
    [0, 1].map(|me| {
        let node = Node::new(anonymous::device(), Kind::Socket, 0o777);
        let inode: Arc<dyn Inode> = Arc::new(SocketInode(node));
        let pair = pair.clone();
        (inode, Arc::new(Socket { pair, me }))
    })
}

impl Drop for Socket {
    fn drop(&mut self) {
        let mut sides = self.pair.sides.lock();
        let unread = !core::mem::take(&mut sides[self.me].inbox)
            .messages
            .is_empty();
        sides[self.me].gone = true;
        sides[self.other()].reset = unread && self.pair.style != Style::Datagram;
        drop(sides);
        self.pair.changed[self.other()].wake_all();
    }
}

impl Socket {
    fn other(&self) -> usize {
        1 - self.me
    }

    /// What reading gives while nothing is there: wait (`None`), the end, or ECONNRESET once.
    fn nothing(&self, sides: &mut [Side; 2]) -> Option<Result<usize>> {
        if core::mem::take(&mut sides[self.me].reset) {
            return Some(Err(Errno::ECONNRESET));
        }
        let ended = sides[self.other()].gone && self.pair.style != Style::Datagram;
        ended.then_some(Ok(0))
    }

    /// Asks `ready` until it answers; EAGAIN when it does not at once and may not wait.
    fn wait<T>(&self, wait: bool, mut ready: impl FnMut() -> Option<Result<T>>) -> Result<T> {
        match ready() {
            Some(result) => result,
            None if !wait => Err(Errno::EAGAIN),
            None => self.pair.changed[self.me]
                .wait(None, ready)?
                .unwrap_or(Err(Errno::EAGAIN)),
        }
    }

    fn read_stream(&self, at: At, sink: &mut Sink<'_>) -> Result<usize> {
        let take = |into: &mut [u8]| {
            let mut sides = self.pair.sides.lock();
            match sides[self.me].inbox.take(into) {
                0 => self.nothing(&mut sides),
                n => Some(Ok(n)),
            }
        };
        sink.receive(
            |buffer, first| {
                let n = match self.wait(first && !at.nonblocking, || take(buffer)) {
                    Err(Errno::EAGAIN) if !first => 0,
                    result => result?,
                };
                self.pair.changed[self.other()].wake_all();
                Ok(n)
            },
            |rest| self.pair.sides.lock()[self.me].inbox.put_back(rest),
        )
    }

    fn read_message(&self, at: At, sink: &mut Sink<'_>) -> Result<usize> {
        let message = self.wait(!at.nonblocking, || {
            let mut sides = self.pair.sides.lock();
            match sides[self.me].inbox.pop() {
                Some(message) => Some(Ok(message)),
                None => self.nothing(&mut sides).map(|end| end.map(|_| Vec::new())),
            }
        })?;
        self.pair.changed[self.other()].wake_all();
        // What does not fit is lost, recv(2).
        let n = message.len().min(sink.left());
        sink.give(&message[..n])
    }

    /// Sends one message, or a piece of a stream.
    fn send(&self, wait: bool, bytes: &[u8]) -> Result {
        if bytes.len() + OVERHEAD > CAPACITY {
            return Err(Errno::EMSGSIZE);
        }
        room::check(Errno::ENOMEM)?;
        let mut message = fallible::copied(bytes)?;
        self.wait(wait, || {
            let mut sides = self.pair.sides.lock();
            let other = &mut sides[self.other()];
            if other.gone {
                return Some(Err(match self.pair.style {
                    Style::Datagram => Errno::ECONNREFUSED,
                    _ => Errno::EPIPE,
                }));
            }
            let fits = other.inbox.taken + bytes.len() + OVERHEAD <= CAPACITY;
            fits.then(|| other.inbox.push(core::mem::take(&mut message)))
        })?;
        self.pair.changed[self.other()].wake_all();
        Ok(())
    }
}

impl FileOps for Socket {
    fn read(&self, at: At, sink: &mut Sink<'_>) -> Result<usize> {
        match self.pair.style {
            Style::Stream if sink.left() == 0 => Ok(0),
            Style::Stream => self.read_stream(at, sink),
            _ => self.read_message(at, sink),
        }
    }

    fn write(&self, at: At, source: &mut Source<'_>) -> Result<usize> {
        let wait = !at.nonblocking;
        let result = if self.pair.style == Style::Stream {
            source.drain_pieces(PIECE, |bytes| self.send(wait, bytes))
        } else {
            let message = source.take_all(CAPACITY).map_err(|error| match error {
                Errno::EINVAL => Errno::EMSGSIZE,
                other => other,
            })?;
            self.send(wait, &message).map(|()| message.len())
        };
        if result == Err(Errno::EPIPE) {
            process::broken_pipe();
        }
        result
    }

    fn is_stream(&self) -> bool {
        true
    }

    fn poll(&self) -> Ready {
        let sides = self.pair.sides.lock();
        let (mine, other) = (&sides[self.me], &sides[self.other()]);
        let ended = other.gone && self.pair.style != Style::Datagram;
        let mut ready = Ready::empty();
        ready.set(Ready::IN, !mine.inbox.messages.is_empty() || ended);
        // As Linux has it: not before a fair part is free.
        ready.set(Ready::OUT, other.gone || other.inbox.taken < CAPACITY / 2);
        ready.set(Ready::HUP, ended);
        ready
    }

    fn queues<'a>(&'a self, queues: &mut Vec<&'a WaitQueue>) {
        queues.push(&self.pair.changed[self.me]);
    }

    fn ioctl(&self, command: u32, argument: u64) -> Result<u64> {
        match command {
            FIONREAD => {
                let sides = self.pair.sides.lock();
                let inbox = &sides[self.me].inbox;
                let first = inbox.messages.front().map_or(0, Vec::len);
                let n = match self.pair.style {
                    Style::Stream => inbox.bytes(),
                    _ => first,
                };
                drop(sides);
                uaccess::write(argument, &(n as i32))?;
                Ok(0)
            }
            _ => Err(Errno::ENOTTY),
        }
    }
}

/// The flags of an open socket.
pub const OPEN_FLAGS: u32 = c::O_RDWR;
