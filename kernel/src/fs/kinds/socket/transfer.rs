//! Sending and receiving, send(2) and recv(2).

use super::{Pair, Side, Socket, Style};
use crate::base::errno::{Errno, Result};
use crate::base::room;
use crate::fs::caller;
use crate::fs::open::io::{Sink, Source};
use crate::sched::timers;
use alloc::vec::Vec;

/// Streams go in pieces of at most this size.
const PIECE: usize = 16 << 10;

/// Flags of a transfer.
#[derive(Clone, Copy)]
pub struct How {
    /// It may wait: neither O_NONBLOCK nor MSG_DONTWAIT.
    pub wait: bool,
    /// MSG_PEEK: what is received stays there.
    pub peek: bool,
    /// MSG_WAITALL: a stream is received until all the room is filled.
    pub fill: bool,
    /// MSG_NOSIGNAL: a broken connection raises no SIGPIPE.
    pub quiet: bool,
}

impl How {
    /// As read(2) and write(2) do it.
    pub fn waiting(wait: bool) -> How {
        How {
            wait,
            peek: false,
            fill: false,
            quiet: false,
        }
    }
}

/// Result of a receive.
#[derive(Clone, Copy)]
pub struct Received {
    /// Bytes that arrived in the caller's memory.
    pub bytes: usize,
    /// Bytes of the message, which may be more.
    pub message: usize,
}

impl Pair {
    /// The result of a receive with an empty inbox: wait (`None`), the end, or ECONNRESET once.
    fn nothing(&self, mine: &mut Side, wait: bool) -> Option<Result> {
        if core::mem::take(&mut mine.reset) {
            return Some(Err(Errno::ECONNRESET));
        }
        // A nonblocking receiver of datagrams is not notified that none will come.
        let told = self.style != Style::Datagram || wait;
        (mine.deaf && told).then_some(Ok(()))
    }

    /// Why this side cannot send; `None` if it can.
    fn broken(&self, mine: &mut Side, other_gone: bool, other_deaf: bool) -> Option<Errno> {
        match self.style {
            Style::Packets if core::mem::take(&mut mine.reset) => Some(Errno::ECONNRESET),
            _ if mine.mute => Some(Errno::EPIPE),
            Style::Datagram if other_gone => Some(Errno::ECONNREFUSED),
            Style::Datagram if other_deaf => Some(Errno::EPIPE),
            _ => None,
        }
    }
}

impl Socket {
    /// Receives bytes of a stream, or one message. EAGAIN, ECONNRESET, ERESTARTSYS; 0 bytes at the
    /// end.
    pub fn receive(&self, how: How, sink: &mut Sink<'_>) -> Result<Received> {
        if self.pair.style != Style::Stream {
            return self.receive_message(how, sink);
        }
        self.wait_for_input(how)?;
        let bytes = if how.peek {
            sink.fill(|done, into| Ok(self.pair.sides.lock()[self.me].inbox.peek(done, into)))?
        } else {
            self.receive_stream(how, sink)?
        };
        Ok(Received {
            bytes,
            message: bytes,
        })
    }

    fn receive_stream(&self, how: How, sink: &mut Sink<'_>) -> Result<usize> {
        sink.receive(
            |into, first| {
                if !first && how.fill {
                    self.wait_for_input(how)?;
                }
                let mut n = self.take(into);
                // What is received is not lost to what ends the wait.
                while how.fill && 0 < n && n < into.len() && self.wait_for_input(how).is_ok() {
                    match self.take(&mut into[n..]) {
                        0 => break,
                        more => n += more,
                    }
                }
                Ok(n)
            },
            |rest| self.pair.sides.lock()[self.me].inbox.put_back(rest),
        )
    }

    /// Takes what there is of a stream, up to the size of `into`.
    fn take(&self, into: &mut [u8]) -> usize {
        let n = self.pair.sides.lock()[self.me].inbox.take(into);
        self.pair.changed[self.other()].wake_all();
        n
    }

    fn receive_message(&self, how: How, sink: &mut Sink<'_>) -> Result<Received> {
        self.wait_for_input(how)?;
        let message = if how.peek {
            let mut copy = fallible::filled(0, sink.left().min(self.first_message()))?;
            let len = self.pair.sides.lock()[self.me]
                .inbox
                .peek_message(&mut copy);
            (copy, len.unwrap_or(0))
        } else {
            let message = self.pair.sides.lock()[self.me].inbox.pop();
            self.pair.changed[self.other()].wake_all();
            let message = message.unwrap_or_default();
            let len = message.len();
            (message, len)
        };
        let (start, len) = message;
        // What does not fit is lost, recv(2).
        let n = start.len().min(sink.left());
        Ok(Received {
            bytes: sink.give(&start[..n])?,
            message: len,
        })
    }

    fn first_message(&self) -> usize {
        self.pair.sides.lock()[self.me].inbox.first()
    }

    /// Waits until something has come or nothing will.
    fn wait_for_input(&self, how: How) -> Result {
        let timeout = self.options(|options| options.receive_timeout());
        self.wait(how, timeout, || {
            let mine = &mut self.pair.sides.lock()[self.me];
            if mine.inbox.is_empty() {
                self.pair.nothing(mine, how.wait)
            } else {
                Some(Ok(()))
            }
        })
    }

    /// Sends bytes of a stream, or one message. EPIPE (of a stream with SIGPIPE), ECONNREFUSED,
    /// EMSGSIZE, EAGAIN, ENOMEM.
    pub fn send(&self, how: How, source: &mut Source<'_>) -> Result<usize> {
        let space = self.options(|options| options.send_space());
        if self.pair.style == Style::Stream {
            let piece = PIECE.min(space / 2);
            let result = source.drain_pieces(piece, |bytes| {
                self.send_one(how, space, fallible::copied(bytes)?)
            });
            if result == Err(Errno::EPIPE) && !how.quiet {
                caller::broken_pipe();
            }
            return result;
        }
        let message = source.take_all(space).map_err(|error| match error {
            Errno::EINVAL => Errno::EMSGSIZE,
            other => other,
        })?;
        let len = message.len();
        self.send_one(how, space, message).map(|()| len)
    }

    /// Sends one message, or a piece of a stream.
    fn send_one(&self, how: How, space: usize, mut message: Vec<u8>) -> Result {
        if message.len() + super::inbox::OVERHEAD > space {
            return Err(Errno::EMSGSIZE);
        }
        room::check(Errno::ENOMEM)?;
        let timeout = self.options(|options| options.send_timeout());
        self.wait(how, timeout, || {
            let mut sides = self.pair.sides.lock();
            let (gone, deaf) = (sides[self.other()].gone, sides[self.other()].deaf);
            if let Some(error) = self.pair.broken(&mut sides[self.me], gone, deaf) {
                return Some(Err(error));
            }
            let inbox = &mut sides[self.other()].inbox;
            inbox
                .has_room(message.len(), space)
                .then(|| inbox.push(core::mem::take(&mut message)))
        })?;
        self.pair.changed[self.other()].wake_all();
        Ok(())
    }

    /// Waits until `ready` gives a value; EAGAIN when it does not at once and the call may not
    /// wait, or when `timeout` ns have passed.
    fn wait(
        &self,
        how: How,
        timeout: Option<u64>,
        mut ready: impl FnMut() -> Option<Result>,
    ) -> Result {
        match ready() {
            Some(result) => result,
            None if !how.wait => Err(Errno::EAGAIN),
            None => {
                let deadline = timeout.map(|ns| timers::now().saturating_add(ns));
                self.pair.changed[self.me]
                    .wait(deadline, ready)?
                    .unwrap_or(Err(Errno::EAGAIN))
            }
        }
    }
}
