//! Receive buffer of one side of a pair.

use crate::base::errno::Result;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Overhead of a message, so that empty ones are limited, too.
pub const OVERHEAD: usize = 64;

/// Messages in order, or pieces of a stream.
#[derive(Default)]
pub struct Inbox {
    messages: VecDeque<Vec<u8>>,
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
        self.messages.front().map_or(0, Vec::len)
    }

    /// Whether it is empty, without even a message of no bytes.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Whether another message of `len` bytes stays within `capacity`.
    pub fn has_room(&self, len: usize, capacity: usize) -> bool {
        self.taken + len + OVERHEAD <= capacity
    }

    /// Adds a message, or a piece of a stream. ENOMEM.
    pub fn push(&mut self, message: Vec<u8>) -> Result {
        fallible::reserve(&mut self.messages, 1)?;
        self.taken += message.len() + OVERHEAD;
        self.messages.push_back(message);
        Ok(())
    }

    /// Takes the first message.
    pub fn pop(&mut self) -> Option<Vec<u8>> {
        let message = self.messages.pop_front()?;
        self.taken -= message.len() - self.used + OVERHEAD;
        self.used = 0;
        Some(message)
    }

    /// Takes bytes across messages.
    pub fn take(&mut self, into: &mut [u8]) -> usize {
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

    /// Copies bytes from `offset` on, across messages, and leaves them there.
    pub fn peek(&self, offset: usize, into: &mut [u8]) -> usize {
        let mut skip = self.used + offset;
        let mut done = 0;
        for message in &self.messages {
            let rest = &message[skip.min(message.len())..];
            let n = rest.len().min(into.len() - done);
            into[done..done + n].copy_from_slice(&rest[..n]);
            (done, skip) = (done + n, skip.saturating_sub(message.len()));
        }
        done
    }

    /// Copies the beginning of the first message; that message's length. `None` without a message.
    pub fn peek_message(&self, into: &mut [u8]) -> Option<usize> {
        let first = self.messages.front()?;
        let n = first.len().min(into.len());
        into[..n].copy_from_slice(&first[..n]);
        Some(first.len())
    }

    /// Puts bytes in front that were just taken; without memory they are lost, as if they had been
    /// read.
    pub fn put_back(&mut self, bytes: &[u8]) {
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
