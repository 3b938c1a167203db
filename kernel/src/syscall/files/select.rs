//! select(2) and pselect(2).

use super::poll::{
    Deadline, TimeWords, Watched, let_go, pause_after, set_mask, wait_for, watch_each,
};
use crate::base::errno::{Errno, Result};
use crate::base::user_ptr::UserPtr;
use crate::fs::Fd;
use crate::fs::caller::open_files_limit;
use crate::fs::open::ops::Ready;
use crate::process::task::Task;
use alloc::vec::Vec;

/// The three sets of select, and what each asks poll for and takes as an answer.
const SETS: [(Ready, Ready); 3] = [
    (Ready::IN, Ready::IN.union(Ready::HUP).union(Ready::ERR)),
    (Ready::OUT, Ready::OUT.union(Ready::ERR)),
    (Ready::PRI, Ready::PRI),
];

/// Where a set of descriptors stands in the caller's memory, 64 in a word.
type SetPtr = UserPtr<u64>;

/// The set of the descriptors below `count`; empty for a null pointer.
fn read_set(at: SetPtr, count: usize) -> Result<Vec<u64>> {
    let mut set = fallible::filled(0, count.div_ceil(64))?;
    if at.given().is_some() {
        for (n, word) in (0..).zip(&mut set) {
            *word = at.element(n).read()?;
            pause_after(n as usize);
        }
    }
    if let Some(last) = set.last_mut() {
        *last &= u64::MAX >> (count.wrapping_neg() % 64);
    }
    Ok(set)
}

fn write_set(at: SetPtr, set: &[u64]) -> Result {
    if at.given().is_some() {
        for (n, word) in (0..).zip(set) {
            at.element(n).write(word)?;
            pause_after(n as usize);
        }
    }
    Ok(())
}

fn has(set: &[u64], fd: usize) -> bool {
    set[fd / 64] >> (fd % 64) & 1 != 0
}

fn select_until(task: &Task, count: i32, sets: [SetPtr; 3], deadline: Option<u64>) -> Result<u64> {
    let count = usize::try_from(count)
        .map_err(|_| Errno::EINVAL)?
        .min(open_files_limit());
    let mut bits = [const { Vec::new() }; 3];
    for (bits, at) in bits.iter_mut().zip(sets) {
        *bits = read_set(at, count)?;
    }
    let watch = |fd: usize| {
        let wanted = (0..3)
            .filter(|set| has(&bits[*set], fd))
            .fold(Ready::empty(), |all, set| all | SETS[set].0);
        (!wanted.is_empty()).then(|| Watched::new(task, Fd(fd as i32), wanted))
    };
    let watched = watch_each(count, watch)?;
    let ready = match watched.iter().flatten().any(|w| w.file.is_none()) {
        true => Err(Errno::EBADF),
        false => wait_for(&watched, deadline),
    };
    let_go(watched);
    let ready = ready?;
    let mut total = 0;
    for ((set, at), (_, answer)) in bits.iter_mut().zip(sets).zip(SETS) {
        for (fd, ready) in ready.iter().enumerate() {
            if !ready.intersects(answer) {
                set[fd / 64] &= !(1 << (fd % 64));
            }
            pause_after(fd);
        }
        total += set
            .iter()
            .map(|word| u64::from(word.count_ones()))
            .sum::<u64>();
        write_set(at, set)?;
    }
    Ok(total)
}

/// select(2).
#[cfg(target_arch = "x86_64")]
pub fn select(
    task: &Task,
    count: i32,
    read: SetPtr,
    write: SetPtr,
    except: SetPtr,
    timeout: UserPtr<TimeWords>,
) -> Result<u64> {
    let deadline = Deadline::read(timeout, 1000)?;
    let result = select_until(task, count, [read, write, except], deadline.at);
    deadline.write_left();
    result
}

/// pselect(2): the last argument points to the mask and its size.
pub fn pselect(
    task: &Task,
    count: i32,
    read: SetPtr,
    write: SetPtr,
    except: SetPtr,
    timeout: UserPtr<TimeWords>,
    mask: UserPtr<[u64; 2]>,
) -> Result<u64> {
    let deadline = Deadline::read(timeout, 1)?;
    if let Some(mask) = mask.given() {
        let [pointer, size] = mask.read()?;
        set_mask(pointer.into(), size)?;
    }
    let result = select_until(task, count, [read, write, except], deadline.at);
    deadline.write_left();
    result
}
