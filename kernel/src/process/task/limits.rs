//! Resource limits, getrlimit(2).

use super::Process;
use crate::base::errno::{Errno, Result};
use linux_raw_sys::general::CAP_IPC_LOCK;

/// The limits by number, as in `<asm-generic/resource.h>`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
#[allow(
    missing_docs,
    dead_code,
    reason = "getrlimit(2) says what they are; not all are asked about by name"
)]
pub enum Resource {
    Cpu = 0,
    FileSize = 1,
    Data = 2,
    Stack = 3,
    Core = 4,
    Rss = 5,
    Processes = 6,
    OpenFiles = 7,
    MemLock = 8,
    AddressSpace = 9,
    Locks = 10,
    SigPending = 11,
    MsgQueue = 12,
    Nice = 13,
    RtPriority = 14,
    RtTime = 15,
}

/// How many there are.
pub const COUNT: usize = 16;

/// The most that RLIMIT_NOFILE may say (Linux: fs.nr_open).
const MAX_OPEN_FILES: u64 = 1 << 20;

/// No limit.
pub const INFINITY: u64 = u64::MAX;

/// Soft and hard limit of each resource.
#[derive(Clone, Copy, Debug)]
pub struct ResourceLimits([(u64, u64); COUNT]);

impl ResourceLimits {
    /// What PID 1 starts with: Linux's numbers, with the process limits that fit `pages` of memory.
    pub fn initial(pages: u64) -> Self {
        let mut limits = [(INFINITY, INFINITY); COUNT];
        // A process takes about 200 KiB at the least; half of memory may go to processes.
        let processes = (pages / 100).clamp(32, 16384);
        limits[Resource::Stack as usize] = (8 << 20, INFINITY);
        limits[Resource::Core as usize] = (0, INFINITY);
        limits[Resource::Processes as usize] = (processes, processes);
        limits[Resource::OpenFiles as usize] = (1024, 4096);
        limits[Resource::MemLock as usize] = (8 << 20, 8 << 20);
        limits[Resource::SigPending as usize] = (processes, processes);
        limits[Resource::MsgQueue as usize] = (819_200, 819_200);
        limits[Resource::Nice as usize] = (0, 0);
        limits[Resource::RtPriority as usize] = (0, 0);
        Self(limits)
    }

    /// The soft limit.
    pub fn soft(&self, resource: Resource) -> u64 {
        self.0[resource as usize].0
    }

    /// Soft and hard limit by number; EINVAL for an unknown one.
    pub fn get(&self, number: usize) -> Result<(u64, u64)> {
        self.0.get(number).copied().ok_or(Errno::EINVAL)
    }

    /// Sets soft and hard limit. EINVAL when the soft one is above the hard one, EPERM for more
    /// than [`MAX_OPEN_FILES`]. Raising the hard one is root's right, and all are root.
    pub fn set(&mut self, number: usize, soft: u64, hard: u64) -> Result {
        let limit = self.0.get_mut(number).ok_or(Errno::EINVAL)?;
        if soft > hard {
            return Err(Errno::EINVAL);
        }
        if number == Resource::OpenFiles as usize && hard > MAX_OPEN_FILES {
            return Err(Errno::EPERM);
        }
        *limit = (soft, hard);
        Ok(())
    }
}

impl Process {
    /// Its resource limits.
    pub fn limits(&self) -> ResourceLimits {
        *self.limits.lock()
    }

    /// Changes the limits, and those of the address space.
    pub fn change_limits<R>(&self, change: impl FnOnce(&mut ResourceLimits) -> R) -> R {
        let result = change(&mut self.limits.lock());
        self.limit_space();
        result
    }

    /// Tells the address space the limits as they are now.
    pub(super) fn limit_space(&self) {
        let limits = self.space_limits();
        self.space.with(|space| space.set_limits(limits));
    }

    /// What an address space of the process has to know.
    pub fn space_limits(&self) -> mm::Limits {
        let limits = self.limits();
        mm::Limits {
            address_space: limits.soft(Resource::AddressSpace),
            data: limits.soft(Resource::Data),
            stack: limits.soft(Resource::Stack),
            memlock: match self.credentials(|it| it.may(CAP_IPC_LOCK)) {
                true => INFINITY,
                false => limits.soft(Resource::MemLock),
            },
        }
    }
}
