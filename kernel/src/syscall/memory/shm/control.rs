//! shmctl(2).

use crate::base::errno::{Errno, Result};
use crate::base::user_ptr::UserPtr;
use crate::process::shm::{self, Segment};
use alloc::sync::Arc;

/// IPC_* and SHM_*: what is to be done.
#[derive(Clone, Copy)]
#[repr(u32)]
enum Command {
    Rmid = 0,
    Set = 1,
    Stat = 2,
    IpcInfo = 3,
    Lock = 11,
    Unlock = 12,
    StatIndex = 13,
    Info = 14,
    StatAny = 15,
}

impl Command {
    const ALL: [Command; 9] = [
        Command::Rmid,
        Command::Set,
        Command::Stat,
        Command::IpcInfo,
        Command::Lock,
        Command::Unlock,
        Command::StatIndex,
        Command::Info,
        Command::StatAny,
    ];

    fn of(number: u32) -> Option<Command> {
        Command::ALL.into_iter().find(|it| *it as u32 == number)
    }
}

/// `struct shmid_ds`, `struct shminfo` or `struct shm_info`, in words of 8 bytes.
pub type Buffer = [u64; 14];

/// SHM_DEST: it goes with its last attachment.
const DEST: u32 = 0o1000;
/// SHM_LOCKED.
const LOCKED: u32 = 0o2000;
/// "Leave this one as it is": no user and no group.
const NOBODY: u32 = u32::MAX;

/// shmctl(2).
pub fn shmctl(id: i32, command: u32, buffer: UserPtr<Buffer>) -> Result<u64> {
    let command = Command::of(command).ok_or(Errno::EINVAL)?;
    if id < 0 {
        return Err(Errno::EINVAL);
    }
    match command {
        Command::IpcInfo => put(buffer, limits(), shm::highest_index().into()),
        Command::Info => put(buffer, totals(), shm::highest_index().into()),
        Command::Stat => put(buffer, stat(&shm::by_id(id)?), 0),
        Command::StatIndex | Command::StatAny => {
            let segment = shm::at_index(id)?;
            put(buffer, stat(&segment), segment.id() as u64)
        }
        Command::Set => set(id, buffer),
        Command::Rmid => shm::by_id(id)
            .map(|segment| shm::remove(&segment))
            .map(|()| 0),
        Command::Lock | Command::Unlock => {
            shm::by_id(id)?.set_locked(matches!(command, Command::Lock));
            Ok(0)
        }
    }
}

/// Writes the first words of the buffer.
fn put<const N: usize>(buffer: UserPtr<Buffer>, words: [u64; N], answer: u64) -> Result<u64> {
    buffer.field(0).write(&words)?;
    Ok(answer)
}

/// IPC_SET: owner and mode. EINVAL: no such user or group.
fn set(id: i32, buffer: UserPtr<Buffer>) -> Result<u64> {
    let words = buffer.read()?;
    let segment = shm::by_id(id)?;
    let (_, uid) = halves(words[0]);
    let (gid, _) = halves(words[1]);
    let (_, mode) = halves(words[2]);
    if uid == NOBODY || gid == NOBODY {
        return Err(Errno::EINVAL);
    }
    segment.set_owner(uid, gid, mode & 0o777);
    Ok(0)
}

/// A word from two numbers of 4 bytes: both machines have the lower one first.
fn word(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

fn halves(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

/// `struct shmid_ds`.
fn stat(segment: &Arc<Segment>) -> Buffer {
    let (state, (cuid, cgid, cpid)) = (segment.state(), segment.creator);
    let mut mode = state.mode;
    if state.removed {
        mode |= DEST;
    }
    if state.locked {
        mode |= LOCKED;
    }
    [
        word(segment.key() as u32, state.uid),
        word(state.gid, cuid),
        word(cgid, mode),
        segment.id() as u64 >> shm::ID_BITS,
        0,
        0,
        segment.size,
        state.attached as u64,
        state.detached as u64,
        state.changed as u64,
        word(cpid as u32, state.last_pid as u32),
        segment.attachments(),
        0,
        0,
    ]
}

/// `struct shminfo`: shmmax, shmmin, shmmni, shmseg, shmall.
fn limits() -> [u64; 9] {
    let limits = shm::limits();
    let (max, number) = (limits.max_size, limits.segments);
    [max, 1, number, number, limits.all_pages, 0, 0, 0, 0]
}

/// `struct shm_info`: segments, their pages, those in memory, those swapped, two more about that.
fn totals() -> [u64; 6] {
    let totals = shm::totals();
    [totals.segments, totals.pages, totals.resident, 0, 0, 0]
}
