//! What a process does about each signal.

use super::*;
use crate::base::ranks;
use alloc::sync::Arc;
use linux_raw_sys::general as abi;
use mm::sync::Lock;

/// sigaction(2) as the kernel sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Action {
    /// SIG_DFL (0), SIG_IGN (1) or the handler's address.
    pub handler: u64,
    /// SA_*.
    pub flags: u64,
    /// SA_RESTORER's address, 0 without it.
    pub restorer: u64,
    /// Blocked while the handler runs.
    pub mask: SigSet,
}

/// The three things an action can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// SIG_DFL.
    Default,
    /// SIG_IGN.
    Ignore,
    /// A handler.
    Handler,
}

/// What happens by default, signal(7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Default {
    /// Nothing.
    Ignore,
    /// The process ends.
    Terminate,
    /// The process ends, and the wait status says that it dumped core (ours never does, so the bit
    /// stays clear).
    Core,
    /// The process stops.
    Stop,
    /// The process goes on (which happens when the signal is sent).
    Continue,
}

impl Default {
    /// The default action of a signal.
    pub const fn of(signo: i32) -> Self {
        match signo {
            SIGCHLD | SIGURG | SIGWINCH => Self::Ignore,
            SIGCONT => Self::Continue,
            SIGSTOP | SIGTSTP | SIGTTIN | SIGTTOU => Self::Stop,
            SIGQUIT | SIGILL | SIGTRAP | SIGABRT | SIGBUS | SIGFPE | SIGSEGV | SIGXCPU
            | SIGXFSZ | SIGSYS => Self::Core,
            _ => Self::Terminate,
        }
    }
}

impl Action {
    /// SIG_DFL.
    pub const DEFAULT: Action = Action {
        handler: 0,
        flags: 0,
        restorer: 0,
        mask: 0,
    };

    /// Default, ignore or handler.
    pub fn disposition(&self) -> Disposition {
        match self.handler as u32 as u64 == self.handler {
            true if self.handler == 0 => Disposition::Default,
            true if self.handler == 1 => Disposition::Ignore,
            _ => Disposition::Handler,
        }
    }

    /// Whether all flags of `flags` are set.
    pub fn has(&self, flags: u32) -> bool {
        self.flags & u64::from(flags) != 0
    }

    /// Whether the signal has no effect with this action.
    pub fn ignores(&self, signo: i32) -> bool {
        match self.disposition() {
            Disposition::Ignore => true,
            Disposition::Default => Default::of(signo) == Default::Ignore,
            Disposition::Handler => false,
        }
    }
}

/// The actions of a process; CLONE_SIGHAND shares them.
pub struct Handlers(Lock<[Action; LAST as usize], { ranks::SIGNAL }>);

impl Handlers {
    /// All default.
    pub fn new() -> Arc<Self> {
        Arc::new(Self(Lock::new([Action::DEFAULT; LAST as usize])))
    }

    /// A copy of its own, for fork.
    pub fn copy(&self) -> Arc<Self> {
        Arc::new(Self(Lock::new(*self.0.lock())))
    }

    /// The action of a signal.
    pub fn get(&self, signo: i32) -> Action {
        self.0.lock()[signo as usize - 1]
    }

    /// Sets an action; returns the old one.
    pub fn set(&self, signo: i32, action: Action) -> Action {
        core::mem::replace(&mut self.0.lock()[signo as usize - 1], action)
    }

    /// For execve: what was caught is default again, what was ignored stays ignored.
    pub fn copy_for_exec(&self) -> Arc<Self> {
        let actions = *self.0.lock();
        let reset = actions.map(|action| match action.disposition() {
            Disposition::Ignore => Action {
                handler: u64::from(true),
                ..Action::DEFAULT
            },
            _ => Action::DEFAULT,
        });
        Arc::new(Self(Lock::new(reset)))
    }

    /// Whether children that end are not kept as zombies.
    pub fn reaps_children(&self) -> bool {
        let action = self.get(SIGCHLD);
        action.disposition() == Disposition::Ignore || action.has(abi::SA_NOCLDWAIT)
    }

    /// Ignored and caught signals, for /proc/PID/status.
    pub fn sets(&self) -> (SigSet, SigSet) {
        let actions = self.0.lock();
        let of = |wanted| {
            (1..=LAST)
                .filter(|n| actions[*n as usize - 1].disposition() == wanted)
                .fold(0, |set, n| set | bit(n))
        };
        (of(Disposition::Ignore), of(Disposition::Handler))
    }
}
