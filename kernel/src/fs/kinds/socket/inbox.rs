//! Receive buffer of a socket.

use super::Name;
use super::rights::Rights;
use crate::base::errno::Result;
use crate::fs::caller::Creator;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Overhead of a message, so that empty ones are limited, too.
pub const OVERHEAD: usize = 64;

/// A message, or a piece of a stream.
#[derive(Default)]
pub struct Message {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// What goes with it.
    pub with: Companions,
}

/// What goes with a message besides its bytes.
#[derive(Default)]
pub struct Companions {
    /// The sender's name.
    pub from: Option<Name>,
    /// The sender's process, for SCM_CREDENTIALS.
    pub sender: Option<Creator>,
    /// Open files, SCM_RIGHTS.
    pub rights: Option<Rights>,
}

/// Messages in order, or pieces of a stream.
#[derive(Default)]
pub struct Inbox {
    messages: VecDeque<Message>,
    /// Bytes of the first that were read (of a stream).
    used: usize,
    /// How much of the capacity it takes.
    taken: usize,
}

impl Inbox {
    /// Bytes that were not read.
    pub fn bytes(&self) -> usize {
        self.taken - OVERHEAD * self.messages.len()
    }

    /// Bytes of the first message.
    pub fn first(&self) -> usize {
        self.messages.front().map_or(0, |first| first.bytes.len())
    }

    /// How many messages there are.
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Whether it is empty, without even a message of no bytes.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Whether another message of `len` bytes stays within `capacity`.
    pub fn has_room(&self, len: usize, capacity: usize) -> bool {
        self.taken + len + OVERHEAD <= capacity
    }

    /// The open files in all messages.
    pub fn rights(&self) -> impl Iterator<Item = &Rights> {
        self.messages
            .iter()
            .filter_map(|it| it.with.rights.as_ref())
    }

    /// Makes sure that one more message can be added. ENOMEM.
    pub fn reserve(&mut self) -> Result {
        Ok(fallible::reserve(&mut self.messages, 1)?)
    }

    /// Adds a message, or a piece of a stream, for which there is room.
    pub fn push(&mut self, message: Message) {
        self.taken += message.bytes.len() + OVERHEAD;
        self.messages.push_back(message);
    }

    /// Takes the first message.
    pub fn pop(&mut self) -> Option<Message> {
        let message = self.messages.pop_front()?;
        self.taken -= message.bytes.len() - self.used + OVERHEAD;
        self.used = 0;
        Some(message)
    }

    /// Takes bytes across pieces of a stream, and what goes with them. Pieces with open files are
    /// not joined with what comes after.
    pub fn take(&mut self, into: &mut [u8], with: &mut Companions) -> usize {
        let mut done = 0;
        while done < into.len()
            && with.rights.is_none()
            && let Some(first) = self.messages.front_mut()
        {
            if done == 0 {
                with.from = first.with.from.clone();
                with.sender = first.with.sender;
            }
            with.rights = first.with.rights.take();
            let rest = &first.bytes[self.used..];
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

    /// Copies bytes from `offset` on, across messages, and leaves them there.
    pub fn peek(&self, offset: usize, into: &mut [u8]) -> usize {
        let mut skip = self.used + offset;
        let mut done = 0;
        for Message { bytes, .. } in &self.messages {
            let rest = &bytes[skip.min(bytes.len())..];
            let n = rest.len().min(into.len() - done);
            into[done..done + n].copy_from_slice(&rest[..n]);
            (done, skip) = (done + n, skip.saturating_sub(bytes.len()));
        }
        done
    }

    /// Copies the beginning of the first message; that message's length. `None` without a message.
    pub fn peek_message(&self, into: &mut [u8]) -> Option<usize> {
        let first = &self.messages.front()?.bytes;
        let n = first.len().min(into.len());
        into[..n].copy_from_slice(&first[..n]);
        Some(first.len())
    }

    /// What goes with the first message, but for its open files: those, apart.
    pub fn peek_companions(&self) -> (Companions, Option<&Rights>) {
        let Some(Message { with, .. }) = self.messages.front() else {
            return Default::default();
        };
        let copy = Companions {
            from: with.from.clone(),
            sender: with.sender,
            rights: None,
        };
        (copy, with.rights.as_ref())
    }

    /// Puts bytes in front that were just taken; without memory they are lost, as if they had been
    /// read.
    pub fn put_back(&mut self, bytes: &[u8]) {
        let used = core::mem::take(&mut self.used);
        if let Some(first) = self.messages.front_mut() {
            first.bytes.drain(..used);
        }
        if let Ok(bytes) = fallible::copied(bytes)
            && fallible::reserve(&mut self.messages, 1).is_ok()
        {
            self.taken += bytes.len() + OVERHEAD;
            let with = Companions::default();
            self.messages.push_front(Message { bytes, with });
        }
    }
}
