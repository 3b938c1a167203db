//! Robust lists: futexes whose owner ends. A thread keeps a list of those that it has; at its end
//! each is marked, and one waiter is woken. The format is that of "The robust futex ABI" in the
//! Linux kernel's documentation, and of get_robust_list(2).
//!
//! The list is the program's: it may lead anywhere, and round in a circle.

use crate::base::errno::Result;
use crate::base::uaccess;
use crate::process::futex;
use crate::process::task::{Pid, Task};
use crate::sched;
use core::sync::atomic::Ordering::Relaxed;
use linux_raw_sys::general as abi;

/// Bytes of the head: what set_robust_list(2) must be told.
pub const HEAD: u64 = size_of::<abi::robust_list_head>() as u64;
/// Entries between two pauses.
const STEP: u32 = 64;
/// Set in a link to a futex with priority inheritance, of which there are none.
const INHERITS_PRIORITY: u64 = 1;

/// An entry on the list, or the head.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Entry(u64);

impl Entry {
    /// The entry that a link leads to.
    fn behind(link: u64) -> Result<Entry> {
        Ok(Entry(uaccess::read::<u64>(link)? & !INHERITS_PRIORITY))
    }
}

/// Marks what the running thread has, and forgets the list: the thread ends, or its program does.
pub fn release(task: &Task) {
    let head = task.robust_list.swap(0, Relaxed);
    if head != 0 {
        // Where the list cannot be read it ends.
        let _ = walk(head, task.tid());
    }
}

/// Marks all entries of the list, at last the one that was being put on it or taken off.
fn walk(head: u64, owner: Pid) -> Result {
    let mut entry = Entry::behind(head)?;
    let offset: u64 = uaccess::read(head.wrapping_add(8))?;
    let pending = Entry::behind(head.wrapping_add(16))?;
    let word = |entry: Entry| entry.0.wrapping_add(offset);
    for number in 1..=abi::ROBUST_LIST_LIMIT {
        if entry.0 == head {
            break;
        }
        // Read first: once it is marked, another thread may use the entry.
        let next = Entry::behind(entry.0);
        if entry != pending {
            mark(word(entry), owner)?;
        }
        entry = next?;
        if number % STEP == 0 {
            sched::breathe();
        }
    }
    if pending.0 == 0 {
        return Ok(());
    }
    // Given up between the word and the wake-up that belongs to it.
    if uaccess::load_u32(word(pending))? == 0 {
        futex::wake_address(word(pending).into(), 1);
    }
    mark(word(pending), owner)
}

/// Marks the word if it is the thread's, and wakes a waiter.
fn mark(at: u64, owner: Pid) -> Result {
    let mut found = uaccess::load_u32(at)?;
    while found & abi::FUTEX_TID_MASK == owner as u32 {
        let marked = found & abi::FUTEX_WAITERS | abi::FUTEX_OWNER_DIED;
        match uaccess::compare_exchange_u32(at, found, marked)? {
            was if was == found => {
                if found & abi::FUTEX_WAITERS != 0 {
                    futex::wake_address(at.into(), 1);
                }
                break;
            }
            other => found = other,
        }
    }
    Ok(())
}
