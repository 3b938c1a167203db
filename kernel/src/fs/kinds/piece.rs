//! Contents of a pipe, in order: bytes that were copied in, and pages that were spliced in
//! (vmsplice(2)).

use crate::base::errno::{Errno, Result};
use crate::base::machine::Hw;
use crate::base::room;
use alloc::collections::VecDeque;
use mm::addr::PAGE_SIZE;
use mm::fault::Pin;

/// A part of a user page, held by a pin: its bytes are read when the pipe is read.
pub struct Given {
    /// The page.
    pub pin: Pin<Hw>,
    /// The first byte, from the page's start.
    pub start: usize,
    /// How many; at least 1, and no further than the page.
    pub len: usize,
}

enum Piece {
    Copied(VecDeque<u8>),
    Given(Given),
}

/// The contents of a pipe.
#[derive(Default)]
pub struct Contents {
    pieces: VecDeque<Piece>,
    /// Bytes in all of them.
    len: usize,
    /// How much of the pipe's capacity they take: a given page counts whole.
    taken: usize,
}

/// ENOMEM when there is no memory for one more piece.
fn room_for_one(pieces: &mut VecDeque<Piece>) -> Result {
    Ok(fallible::reserve(pieces, 1)?)
}

impl Contents {
    /// Bytes that can be read.
    pub fn len(&self) -> usize {
        self.len
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// How much of the capacity is taken.
    pub fn taken(&self) -> usize {
        self.taken
    }

    /// Adds bytes, all or none; ENOMEM.
    pub fn put(&mut self, bytes: &[u8]) -> Result {
        if bytes.is_empty() {
            return Ok(());
        }
        if !matches!(self.pieces.back(), Some(Piece::Copied(_))) {
            room_for_one(&mut self.pieces)?;
            self.pieces.push_back(Piece::Copied(VecDeque::new()));
        }
        let Some(Piece::Copied(last)) = self.pieces.back_mut() else {
            return Err(Errno::ENOMEM);
        };
        if last.capacity() - last.len() < bytes.len() {
            room::check(Errno::ENOMEM)?;
            fallible::reserve(last, bytes.len())?;
        }
        last.extend(bytes);
        self.len += bytes.len();
        self.taken += bytes.len();
        Ok(())
    }

    /// Adds a part of a page; ENOMEM.
    pub fn give(&mut self, given: Given) -> Result {
        room_for_one(&mut self.pieces)?;
        self.len += given.len;
        self.taken += PAGE_SIZE as usize;
        self.pieces.push_back(Piece::Given(given));
        Ok(())
    }

    /// Takes the first bytes, as many as fit; how many.
    pub fn take(&mut self, into: &mut [u8]) -> usize {
        let mut done = 0;
        while done < into.len() {
            let Some(first) = self.pieces.front_mut() else {
                break;
            };
            let (n, left) = match first {
                Piece::Copied(bytes) => take_copied(bytes, &mut into[done..]),
                Piece::Given(given) => take_given(given, &mut into[done..]),
            };
            let given = matches!(first, Piece::Given(_));
            done += n;
            self.len -= n;
            self.taken -= if given { 0 } else { n };
            // The last piece of bytes keeps its memory for the next ones.
            if left == 0 && (given || self.pieces.len() > 1) {
                self.taken -= if given { PAGE_SIZE as usize } else { 0 };
                self.pieces.pop_front();
            } else if left == 0 {
                break;
            }
        }
        done
    }

    /// Puts back what was just taken. Without memory for one more piece it is lost, as if it had
    /// been read.
    pub fn put_back(&mut self, bytes: &[u8]) {
        if !matches!(self.pieces.front(), Some(Piece::Copied(_))) {
            if room_for_one(&mut self.pieces).is_err() {
                return;
            }
            self.pieces.push_front(Piece::Copied(VecDeque::new()));
        }
        if let Some(Piece::Copied(first)) = self.pieces.front_mut()
            && fallible::reserve(first, bytes.len()).is_ok()
        {
            bytes.iter().rev().for_each(|byte| first.push_front(*byte));
            self.len += bytes.len();
            self.taken += bytes.len();
        }
    }
}

/// Takes from a piece: how many bytes, and how many are left of it.
fn take_copied(bytes: &mut VecDeque<u8>, into: &mut [u8]) -> (usize, usize) {
    let n = into.len().min(bytes.len());
    let (first, second) = bytes.as_slices();
    let split = n.min(first.len());
    into[..split].copy_from_slice(&first[..split]);
    into[split..n].copy_from_slice(&second[..n - split]);
    bytes.drain(..n);
    (n, bytes.len())
}

fn take_given(given: &mut Given, into: &mut [u8]) -> (usize, usize) {
    let n = into.len().min(given.len);
    given.pin.read(given.start, &mut into[..n]);
    given.start += n;
    given.len -= n;
    (n, given.len)
}
