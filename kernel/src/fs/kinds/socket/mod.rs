//! Pairs of sockets without a name, unix(7): what one side sends the other receives, as a stream or
//! message by message.

mod inbox;
mod options;
mod transfer;

pub use options::{OptionValue, Options};
pub use transfer::{How, Received};

use crate::base::Pid;
use crate::base::errno::{Errno, Result};
use crate::base::ranks;
use crate::base::uaccess;
use crate::fs::OpenFlags;
use crate::fs::kinds::anonymous;
use crate::fs::open::file::{At, FileOps, Ready};
use crate::fs::open::io::{Sink, Source};
use crate::fs::tree::inode::{FileKind, Inode, Node};
use crate::sched::wait::WaitQueue;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use inbox::Inbox;
use linux_raw_sys::ioctl::FIONREAD;
use mm::sync::Lock;

/// Communication style of a pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// SOCK_STREAM: bytes.
    Stream,
    /// SOCK_DGRAM: messages; the end of the other side is not reported.
    Datagram,
    /// SOCK_SEQPACKET: messages, and an end.
    Packets,
}

/// One side's state.
#[derive(Default)]
struct Side {
    inbox: Inbox,
    /// It is closed.
    gone: bool,
    /// Nothing will come any more: shut down, or the other side can send no more.
    deaf: bool,
    /// It can send no more.
    mute: bool,
    /// The other side was closed with unread bytes: ECONNRESET of the next call.
    reset: bool,
    options: Options,
}

/// The process that made a pair (SO_PEERCRED), with its effective user and group.
#[derive(Clone, Copy)]
pub struct Creator {
    /// Its number.
    pub pid: Pid,
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
}

/// Both sides.
struct Pair {
    style: Style,
    creator: Creator,
    sides: Lock<[Side; 2], { ranks::PIPE }>,
    /// The state of a side has changed: bytes, room, or an end.
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
    fn open(self: Arc<Self>, _flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
        Err(Errno::ENXIO)
    }
    fn label(&self) -> Option<String> {
        Some(format!("socket:[{}]", self.0.number))
    }
}

/// Two sockets that are connected, each with its inode.
pub fn pair(style: Style, creator: Creator) -> [(Arc<dyn Inode>, Arc<Socket>); 2] {
    let pair = Arc::new(Pair {
        style,
        creator,
        sides: Lock::new(Default::default()),
        changed: [WaitQueue::new(), WaitQueue::new()],
    });
    [0, 1].map(|me| {
        let node = Node::new(anonymous::device(), FileKind::Socket, 0o777);
        let inode: Arc<dyn Inode> = Arc::new(SocketInode(node));
        let pair = pair.clone();
        (inode, Arc::new(Socket { pair, me }))
    })
}

impl Drop for Socket {
    fn drop(&mut self) {
        let mut sides = self.pair.sides.lock();
        let mine = &mut sides[self.me];
        let inbox = core::mem::take(&mut mine.inbox);
        mine.gone = true;
        if self.pair.style != Style::Datagram {
            let other = &mut sides[self.other()];
            (other.deaf, other.mute) = (true, true);
            other.reset = !inbox.is_empty();
        }
        drop(sides);
        self.pair.changed[self.other()].wake_all();
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

impl Socket {
    fn other(&self) -> usize {
        1 - self.me
    }

    /// Its communication style.
    pub fn style(&self) -> Style {
        self.pair.style
    }

    /// The process that made it.
    pub fn creator(&self) -> Creator {
        self.pair.creator
    }

    /// shutdown(2): this side receives or sends no more; of connected sockets the other side is
    /// notified.
    pub fn shut_down(&self, ends: Directions) {
        let mut sides = self.pair.sides.lock();
        let mine = &mut sides[self.me];
        mine.deaf |= ends.receive;
        mine.mute |= ends.send;
        if self.pair.style != Style::Datagram {
            let other = &mut sides[self.other()];
            other.mute |= ends.receive;
            other.deaf |= ends.send;
        }
        drop(sides);
        self.pair.changed.iter().for_each(WaitQueue::wake_all);
    }

    /// Its options, getsockopt(2).
    pub fn options<R>(&self, f: impl FnOnce(&mut Options) -> R) -> R {
        f(&mut self.pair.sides.lock()[self.me].options)
    }
}

impl FileOps for Socket {
    fn read(&self, at: At, sink: &mut Sink<'_>) -> Result<usize> {
        if self.pair.style == Style::Stream && sink.left() == 0 {
            return Ok(0);
        }
        let received = self.receive(How::waiting(!at.nonblocking), sink)?;
        Ok(received.bytes)
    }

    fn write(&self, at: At, source: &mut Source<'_>) -> Result<usize> {
        self.send(How::waiting(!at.nonblocking), source)
    }

    fn is_stream(&self) -> bool {
        true
    }

    fn poll(&self) -> Ready {
        let sides = self.pair.sides.lock();
        let (mine, other) = (&sides[self.me], &sides[self.other()]);
        let mut ready = Ready::empty();
        ready.set(Ready::IN, !mine.inbox.is_empty() || mine.deaf);
        // As Linux has it: not before a fair part is free.
        let fair = mine.options.send_space() / 2;
        ready.set(Ready::OUT, other.gone || other.inbox.has_room(0, fair));
        ready.set(Ready::RDHUP, mine.deaf);
        ready.set(Ready::HUP, mine.deaf && mine.mute);
        ready
    }

    fn queues<'a>(&'a self, queues: &mut Vec<&'a WaitQueue>) {
        queues.push(&self.pair.changed[self.me]);
    }

    fn ioctl(&self, command: u32, argument: u64) -> Result<u64> {
        match command {
            FIONREAD => {
                let n = {
                    let sides = self.pair.sides.lock();
                    let inbox = &sides[self.me].inbox;
                    match self.pair.style {
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

/// The flags of an open socket.
pub const OPEN_FLAGS: OpenFlags = OpenFlags::RDWR;
