//! What a process does about each signal.

use super::*;
use crate::base::ranks;
use alloc::sync::Arc;
use linux_raw_sys::general as abi;
use mm::sync::Lock;

bitflags::bitflags! {
    /// SA_*.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ActionFlags: u64 {
        /// SA_NOCLDSTOP: no SIGCHLD when a child stops.
        const NOCLDSTOP = abi::SA_NOCLDSTOP as u64;
        /// SA_NOCLDWAIT: children that end are not kept as zombies.
        const NOCLDWAIT = abi::SA_NOCLDWAIT as u64;
        /// SA_SIGINFO: the handler takes three arguments.
        const SIGINFO = abi::SA_SIGINFO as u64;
        /// SA_EXPOSE_TAGBITS: tag bits of an address stay in siginfo.
        const EXPOSE_TAGBITS = abi::SA_EXPOSE_TAGBITS as u64;
        /// SA_RESTORER, which the headers of arm64 do not name.
        const RESTORER = 0x0400_0000;
        /// SA_ONSTACK: the handler runs on the alternate stack.
        const ONSTACK = abi::SA_ONSTACK as u64;
        /// SA_RESTART: an interrupted call is repeated.
        const RESTART = abi::SA_RESTART as u64;
        /// SA_NODEFER: the signal is not blocked while its handler runs.
        const NODEFER = abi::SA_NODEFER as u64;
        /// SA_RESETHAND: the action is the default again when the handler runs.
        const RESETHAND = abi::SA_RESETHAND as u64;
    }
}

/// sigaction(2) as the kernel sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Action {
    /// SIG_DFL (0), SIG_IGN (1) or the handler's address.
    pub handler: u64,
    /// SA_*.
    pub flags: ActionFlags,
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
        flags: ActionFlags::empty(),
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

    /// Whether a flag is set.
    pub fn has(&self, flag: ActionFlags) -> bool {
        self.flags.contains(flag)
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
        action.disposition() == Disposition::Ignore || action.has(ActionFlags::NOCLDWAIT)
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
