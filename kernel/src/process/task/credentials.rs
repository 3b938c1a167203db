//! Credentials: every process has the rights of root, but programs read back what they set.

use super::Process;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// User and group numbers of a process.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    /// Real, effective and saved user.
    pub uid: [u32; 3],
    /// Real, effective and saved group.
    pub gid: [u32; 3],
    /// Supplementary groups; children have the same.
    pub groups: Arc<Vec<u32>>,
    /// capabilities(7), which programs read back and give up.
    pub capabilities: Capabilities,
}

/// Sets of capabilities: bit N is capability N.
#[derive(Clone, Copy, Debug)]
pub struct Capabilities {
    /// What counts.
    pub effective: u64,
    /// What may count.
    pub permitted: u64,
    /// What execve(2) may keep.
    pub inheritable: u64,
}

impl Capabilities {
    /// Linux's 41.
    pub const ALL: u64 = (1 << 41) - 1;
}

impl Default for Capabilities {
    /// Root's.
    fn default() -> Self {
        Capabilities {
            effective: Self::ALL,
            permitted: Self::ALL,
            inheritable: 0,
        }
    }
}

/// "Leave this one as it is" in setreuid(2) and its like.
pub const KEEP: u32 = u32::MAX;

impl Credentials {
    /// setresuid, setresgid: each of real, effective and saved, or [`KEEP`].
    pub fn set(ids: &mut [u32; 3], wanted: [u32; 3]) {
        for (id, wanted) in ids.iter_mut().zip(wanted) {
            if wanted != KEEP {
                *id = wanted;
            }
        }
    }

    /// Effective user.
    pub fn euid(&self) -> u32 {
        self.uid[1]
    }

    /// Whether it has a capability, CAP_*: root's, as long as it has not given that up.
    pub fn may(&self, capability: u32) -> bool {
        self.euid() == 0 && self.capabilities.effective & 1 << capability != 0
    }

    /// Effective group.
    pub fn egid(&self) -> u32 {
        self.gid[1]
    }
}

impl Process {
    /// Reads the credentials.
    pub fn credentials<R>(&self, f: impl FnOnce(&Credentials) -> R) -> R {
        f(&self.credentials.lock())
    }

    /// Changes the credentials.
    pub fn change_credentials<R>(&self, f: impl FnOnce(&mut Credentials) -> R) -> R {
        let result = f(&mut self.credentials.lock());
        self.limit_space();
        result
    }
}
