//! Unimplemented system calls: ENOSYS, a line in the log once per number and process, and a list
//! for procfs.

use super::Call;
use crate::base::errno::{Errno, Result};
use crate::base::ranks;
use crate::process::task::{self, Task};
use alloc::vec::Vec;
use fallible::SortedMap;
use mm::sync::Lock;
use syscalls::Sysno;

/// How often each was called.
static COUNTS: Lock<SortedMap<u64, u64>, { ranks::PROCESS }> = Lock::new(SortedMap::new());
/// How many numbers are counted: a program that tries them all must not fill memory.
const MOST: usize = 1024;

fn name(number: u64) -> &'static str {
    Sysno::new(number as usize).map_or("?", |sysno| sysno.name())
}

/// Counts the call; ENOSYS.
pub fn call(sysno: Sysno, call: Call<'_>) -> Result<u64> {
    report(call.task, sysno as u64)
}

/// Counts the call of this number; ENOSYS.
pub fn report(task: &Task, number: u64) -> Result<u64> {
    count(number);
    let new = task.process().unknown_calls.lock().insert(number);
    if new {
        let name = name(number);
        log::info!(
            "{}: system call {number} ({name}) is not there",
            task::describe_current()
        );
    }
    Err(Errno::ENOSYS)
}

fn count(number: u64) {
    let mut counts = COUNTS.lock();
    if let Some(count) = counts.get_mut(&number) {
        *count += 1;
    } else if counts.len() < MOST {
        // Without memory it is not counted.
        let _ = counts.insert(number, 1);
    }
}

/// Number, name and count of each unimplemented call that was made
/// (/proc/sys/quire/unknown_syscalls).
pub fn unknown() -> Vec<(u64, &'static str, u64)> {
    let counts = COUNTS.lock();
    let named = |(number, count): (&u64, &u64)| (*number, name(*number), *count);
    counts.iter().map(named).collect()
}
