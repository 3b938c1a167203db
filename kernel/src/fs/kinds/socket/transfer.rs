//! Sending and receiving, send(2) and recv(2).

use super::inbox::{Companions, Message, OVERHEAD};
use super::rights::Rights;
use super::{Endpoint, ROOM, State, Style};
use crate::base::errno::{Errno, Result};
use crate::base::room;
use crate::fs::caller::{self, Creator};
use crate::fs::open::io::{Sink, Source};
use crate::fs::open::ops::Ready;
use crate::fs::room::insist;
use crate::sched::timers;
use crate::sched::wait::WaitQueue;
use alloc::sync::{Arc, Weak};

/// Streams go in pieces of at most this size.
const PIECE: usize = 16 << 10;
/// Datagrams that wait in a socket, of senders to which it is not connected: one more may come.
/// /proc/sys/net/unix/max_dgram_qlen.
const MOST_DATAGRAMS: usize = 10;

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

/// Where a message goes, and what goes with it.
#[derive(Default)]
pub struct Outgoing {
    /// The receiver of a datagram, if it is not the other side.
    pub to: Option<Arc<Endpoint>>,
    /// SCM_RIGHTS.
    pub rights: Option<Rights>,
    /// SCM_CREDENTIALS; `None`: the running process's.
    pub sender: Option<Creator>,
}

/// Result of a receive.
pub struct Received {
    /// Bytes that arrived in the caller's memory.
    pub bytes: usize,
    /// Bytes of the message, which may be more.
    pub message: usize,
    /// What came with them.
    pub with: Companions,
}

impl State {
    /// The result of a receive with an empty inbox: wait (`None`), the end, or ECONNRESET once.
    fn nothing(&mut self, style: Style, wait: bool) -> Option<Result> {
        if core::mem::take(&mut self.reset) {
            return Some(Err(Errno::ECONNRESET));
        }
        // A nonblocking receiver of datagrams is not notified that none will come.
        let told = style != Style::Datagram || wait;
        (self.receive_shutdown && told).then_some(Ok(()))
    }

    /// Whether another message fits, of a sender with so much space.
    fn has_room(&self, style: Style, len: usize, space: usize, connected: bool) -> bool {
        let few = style != Style::Datagram || connected || self.inbox.len() <= MOST_DATAGRAMS;
        few && self.inbox.has_room(len, space)
    }
}

impl Endpoint {
    /// Receives bytes of a stream, or one message. EAGAIN, ECONNRESET, ERESTARTSYS; EINVAL,
    /// ENOTCONN: it is not connected; 0 bytes at the end.
    pub fn receive(&self, how: How, sink: &mut Sink<'_>) -> Result<Received> {
        let connected = self.state.lock().peer.is_some();
        match self.style {
            Style::Stream if !connected => return Err(Errno::EINVAL),
            Style::Packets if !connected => return Err(Errno::ENOTCONN),
            Style::Stream => {}
            _ => return self.receive_message(how, sink),
        }
        self.wait_for_input(how)?;
        let mut with = Companions::default();
        let bytes = if how.peek {
            with = self.peek_companions()?;
            sink.fill(|done, into| Ok(self.state.lock().inbox.peek(done, into)))?
        } else {
            self.receive_stream(how, sink, &mut with)?
        };
        Ok(Received {
            bytes,
            message: bytes,
            with,
        })
    }

    fn receive_stream(
        &self,
        how: How,
        sink: &mut Sink<'_>,
        with: &mut Companions,
    ) -> Result<usize> {
        sink.receive(
            |into, first| {
                if !first && how.fill && with.rights.is_none() {
                    self.wait_for_input(how)?;
                }
                let mut n = self.take(into, with);
                // What is received is not lost to what ends the wait.
                while how.fill
                    && with.rights.is_none()
                    && 0 < n
                    && n < into.len()
                    && self.wait_for_input(how).is_ok()
                {
                    match self.take(&mut into[n..], with) {
                        0 => break,
                        more => n += more,
                    }
                }
                Ok(n)
            },
            |rest| self.state.lock().inbox.put_back(rest),
        )
    }

    /// Takes what there is of a stream, up to the size of `into`.
    fn take(&self, into: &mut [u8], with: &mut Companions) -> usize {
        let n = self.state.lock().inbox.take(into, with);
        if let Some(peer) = self.peer() {
            peer.tell(Ready::OUT);
        }
        n
    }

    fn peek_companions(&self) -> Result<Companions> {
        let state = self.state.lock();
        let (mut with, rights) = state.inbox.peek_companions();
        let files = rights.map(Rights::again).transpose()?;
        drop(state);
        with.rights = files.map(Rights::new).transpose()?;
        Ok(with)
    }

    fn receive_message(&self, how: How, sink: &mut Sink<'_>) -> Result<Received> {
        self.wait_for_input(how)?;
        let (message, len) = if how.peek {
            let first = self.state.lock().inbox.first();
            let mut bytes = fallible::filled(0, sink.left().min(first))?;
            let len = self.state.lock().inbox.peek_message(&mut bytes);
            let with = self.peek_companions()?;
            (Message { bytes, with }, len.unwrap_or(0))
        } else {
            let message = self.pop().unwrap_or_default();
            let len = message.bytes.len();
            (message, len)
        };
        // What does not fit is lost, recv(2).
        let n = message.bytes.len().min(sink.left());
        Ok(Received {
            bytes: sink.give(&message.bytes[..n])?,
            message: len,
            with: message.with,
        })
    }

    fn pop(&self) -> Option<Message> {
        let mut state = self.state.lock();
        let message = state.inbox.pop();
        let wanted = core::mem::take(&mut state.wanted);
        drop(state);
        if self.style != Style::Datagram {
            self.peer().inspect(|peer| peer.tell(Ready::OUT));
        } else if wanted {
            ROOM.wake_for(Ready::OUT.bits());
        }
        message
    }

    /// Waits until something has come or nothing will.
    fn wait_for_input(&self, how: How) -> Result {
        let timeout = self.options(|options| options.receive_timeout());
        self.wait(how, timeout, || {
            let state = &mut *self.state.lock();
            if state.inbox.is_empty() {
                state.nothing(self.style, how.wait)
            } else {
                Some(Ok(()))
            }
        })
    }

    /// Sends bytes of a stream, or one message. EPIPE (of a stream with SIGPIPE), ENOTCONN,
    /// ECONNREFUSED, EPERM, EPROTOTYPE, EMSGSIZE, EAGAIN, ENOMEM.
    pub fn send(&self, how: How, source: &mut Source<'_>, out: Outgoing) -> Result<usize> {
        let space = self.options(|options| options.send_space());
        let Outgoing { to, rights, sender } = out;
        let mut with = Companions {
            from: self.name(),
            sender: sender.or_else(|| Some(caller::creator())),
            rights,
        };
        if self.style == Style::Stream {
            let piece = PIECE.min(space / 2);
            let result = source.drain_pieces(piece, |bytes| {
                let bytes = insist(|| Ok(fallible::copied(bytes)?))?;
                let with = Companions {
                    from: with.from.clone(),
                    sender: with.sender,
                    rights: with.rights.take(),
                };
                self.send_one(how, space, None, Message { bytes, with })
            });
            if result == Err(Errno::EPIPE) && !how.quiet {
                caller::broken_pipe();
            }
            return result;
        }
        let bytes = source.take_all(space).map_err(|error| match error {
            Errno::EINVAL => Errno::EMSGSIZE,
            other => other,
        })?;
        let len = bytes.len();
        self.send_one(how, space, to.as_ref(), Message { bytes, with })
            .map(|()| len)
    }

    /// Sends one message, or a piece of a stream.
    fn send_one(
        &self,
        how: How,
        space: usize,
        to: Option<&Arc<Endpoint>>,
        message: Message,
    ) -> Result {
        if message.bytes.len() + OVERHEAD > space {
            return Err(Errno::EMSGSIZE);
        }
        insist(|| room::check(Errno::ENOMEM))?;
        let timeout = self.options(|options| options.send_timeout());
        let queue = match self.style {
            Style::Datagram => &ROOM,
            _ => &self.changed,
        };
        // What is not sent is dropped at the end, with no lock held.
        let (mut message, mut waited) = (Some(message), false);
        wait_on(queue, how, timeout, || {
            let result = self.try_send(space, to, waited, &mut message);
            waited = true;
            result
        })
    }

    /// Sends if there is room. `None`: there is none.
    fn try_send(
        &self,
        space: usize,
        to: Option<&Arc<Endpoint>>,
        waited: bool,
        message: &mut Option<Message>,
    ) -> Option<Result> {
        let receiver = match self.receiver(to, waited) {
            Ok(receiver) => receiver,
            Err(error) => return Some(Err(error)),
        };
        let connected = receiver.is_peer(self);
        let mut state = receiver.state.lock();
        if state.receive_shutdown {
            return Some(Err(Errno::EPIPE));
        }
        let len = message.as_ref().map_or(0, |message| message.bytes.len());
        if !state.has_room(self.style, len, space, connected) {
            state.wanted = true;
            return None;
        }
        // A message that is not sent is not dropped here: no file is closed under a lock.
        if let Err(error) = state.inbox.reserve() {
            return Some(Err(error));
        }
        state.inbox.push(message.take()?);
        drop(state);
        receiver.tell(Ready::IN);
        Some(Ok(()))
    }

    /// Where a message goes. EPIPE, ECONNRESET, ENOTCONN, ECONNREFUSED, EPROTOTYPE, EPERM.
    fn receiver(&self, to: Option<&Arc<Endpoint>>, waited: bool) -> Result<Arc<Endpoint>> {
        let mut state = self.state.lock();
        // Of a stream only a call learns it that was there before.
        let learns = waited || self.style == Style::Packets;
        if learns && core::mem::take(&mut state.reset) {
            return Err(Errno::ECONNRESET);
        }
        if state.send_shutdown {
            return Err(Errno::EPIPE);
        }
        let peer = state.peer.clone();
        drop(state);
        let receiver = match to {
            Some(to) => Some(to.clone()),
            None => peer.ok_or(Errno::ENOTCONN)?.upgrade(),
        };
        let there = receiver.filter(|receiver| !receiver.state.lock().gone);
        if self.style != Style::Datagram {
            return there.ok_or(Errno::EPIPE);
        }
        let Some(receiver) = there else {
            if to.is_none() {
                self.disconnect()?;
            }
            return Err(Errno::ECONNREFUSED);
        };
        if receiver.style != self.style {
            return Err(Errno::EPROTOTYPE);
        }
        receiver.check_takes_from(self)?;
        Ok(receiver)
    }

    /// Waits until `ready` gives a value; EAGAIN when it does not at once and the call may not
    /// wait, or when `timeout` ns have passed.
    pub(super) fn wait(
        &self,
        how: How,
        timeout: Option<u64>,
        ready: impl FnMut() -> Option<Result>,
    ) -> Result {
        wait_on(&self.changed, how, timeout, ready)
    }

    /// poll(2).
    pub(super) fn poll(&self) -> Ready {
        let state = self.state.lock();
        let waiting = state.backlog.as_ref().map(|it| !it.waiting.is_empty());
        let alone = self.style != Style::Datagram && state.peer.is_none() && waiting.is_none();
        let mut ready = Ready::empty();
        let input = !state.inbox.is_empty() || state.receive_shutdown || waiting == Some(true);
        ready.set(Ready::IN, input);
        ready.set(Ready::ERR, state.reset);
        ready.set(Ready::RDHUP, state.receive_shutdown);
        ready.set(
            Ready::HUP,
            state.receive_shutdown && state.send_shutdown || alone,
        );
        // As Linux has it: not before a fair part is free.
        let fair = state.options.send_space() / 2;
        let peer = state.peer.as_ref().and_then(Weak::upgrade);
        drop(state);
        let room = peer.is_none_or(|peer| {
            let connected = peer.is_peer(self);
            let mut state = peer.state.lock();
            let room = state.gone || state.has_room(self.style, 0, fair, connected);
            state.wanted |= !room;
            room
        });
        ready.set(Ready::OUT, room && waiting.is_none());
        ready
    }
}

fn wait_on(
    queue: &WaitQueue,
    how: How,
    timeout: Option<u64>,
    mut ready: impl FnMut() -> Option<Result>,
) -> Result {
    match ready() {
        Some(result) => result,
        None if !how.wait => Err(Errno::EAGAIN),
        None => {
            let deadline = timeout.map(|ns| timers::now().saturating_add(ns));
            queue.wait(deadline, ready)?.unwrap_or(Err(Errno::EAGAIN))
        }
    }
}
