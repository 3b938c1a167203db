//! The members of process groups, and of sessions.

use super::Pid;
use alloc::collections::BTreeSet;

/// A process in a group or session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Membership {
    /// Number of the group or session.
    pub of: Pid,
    /// Number of the process.
    pub pid: Pid,
}

/// All groups, or all sessions, with their members.
pub(super) struct Groups(pub(super) BTreeSet<Membership>);

impl Groups {
    /// No group.
    pub(super) const fn new() -> Groups {
        Groups(BTreeSet::new())
    }

    /// The member of a group with the lowest number.
    pub(super) fn first_member(&self, of: Pid) -> Option<Pid> {
        self.next_member(of, 0)
    }

    /// The member with the lowest number above `last`.
    pub(super) fn next_member(&self, of: Pid, last: Pid) -> Option<Pid> {
        let (first, end) = (last.checked_add(1)?, Pid::MAX);
        let rest = Membership { of, pid: first }..=Membership { of, pid: end };
        self.0.range(rest).next().map(|member| member.pid)
    }
}
