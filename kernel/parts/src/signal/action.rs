//! Signal dispositions: what a process does about each signal, sigaction(2).

use super::*;
use linux_raw_sys::general as abi;

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

/// The kinds of actions.
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
    /// The process continues (which happens when the signal is sent).
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

    /// SIG_IGN.
    pub const IGNORE: Action = Action {
        handler: 1,
        ..Action::DEFAULT
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

/// The actions of a process, by signal.
#[derive(Clone, Copy, Debug)]
pub struct Actions([Action; LAST as usize]);

impl core::default::Default for Actions {
    /// All default.
    fn default() -> Self {
        Self([Action::DEFAULT; LAST as usize])
    }
}

impl Actions {
    /// The action of a signal, 1 to 64.
    pub fn get(&self, signo: i32) -> Action {
        self.0[signo as usize - 1]
    }

    /// Sets an action; returns the old one.
    pub fn set(&mut self, signo: i32, action: Action) -> Action {
        core::mem::replace(&mut self.0[signo as usize - 1], action)
    }

    /// The actions after execve(2): what was caught is default again, what was ignored stays
    /// ignored.
    pub fn after_exec(&self) -> Self {
        Self(self.0.map(|action| match action.disposition() {
            Disposition::Ignore => Action::IGNORE,
            _ => Action::DEFAULT,
        }))
    }

    /// Whether children that end are not kept as zombies.
    pub fn reaps_children(&self) -> bool {
        let action = self.get(SIGCHLD);
        action.disposition() == Disposition::Ignore || action.has(ActionFlags::NOCLDWAIT)
    }

    /// The signals with actions of one kind.
    pub fn with(&self, wanted: Disposition) -> SigSet {
        (1..=LAST)
            .filter(|signo| self.get(*signo).disposition() == wanted)
            .fold(0, |set, signo| set | bit(signo))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caught(flags: ActionFlags) -> Action {
        Action {
            handler: 0x40_0000,
            flags,
            ..Action::DEFAULT
        }
    }

    #[test]
    fn an_address_is_a_handler_and_0_and_1_are_not() {
        let of = |handler| {
            let action = Action {
                handler,
                ..Action::DEFAULT
            };
            action.disposition()
        };
        assert_eq!(of(0), Disposition::Default);
        assert_eq!(of(1), Disposition::Ignore);
        for handler in [2, 0x40_0000, 1 << 32, u64::MAX] {
            assert_eq!(of(handler), Disposition::Handler);
        }
    }

    #[test]
    fn defaults_are_those_of_the_man_page() {
        for (signo, wanted) in [
            (SIGCHLD, Default::Ignore),
            (SIGTERM, Default::Terminate),
            (SIGKILL, Default::Terminate),
            (SIGSEGV, Default::Core),
            (SIGTTIN, Default::Stop),
            (SIGCONT, Default::Continue),
            (FIRST_REALTIME, Default::Terminate),
            (LAST, Default::Terminate),
        ] {
            assert_eq!(Default::of(signo), wanted, "{signo}");
        }
        assert!(Action::DEFAULT.ignores(SIGCHLD) && !Action::DEFAULT.ignores(SIGTERM));
        assert!(Action::IGNORE.ignores(SIGTERM));
        assert!(!caught(ActionFlags::empty()).ignores(SIGCHLD));
    }

    #[test]
    fn exec_forgets_handlers_and_keeps_what_is_ignored() {
        let mut actions = Actions::default();
        actions.set(SIGTERM, caught(ActionFlags::RESTART));
        let ignored = Action {
            mask: 1,
            ..Action::IGNORE
        };
        actions.set(SIGHUP, ignored);
        assert_eq!(actions.with(Disposition::Handler), bit(SIGTERM));
        let after = actions.after_exec();
        assert_eq!(after.get(SIGTERM), Action::DEFAULT);
        assert_eq!(after.get(SIGHUP), Action::IGNORE);
        assert_eq!(after.with(Disposition::Ignore), bit(SIGHUP));
        assert_eq!(after.with(Disposition::Handler), 0);
    }

    #[test]
    fn children_are_reaped_when_sigchld_is_ignored_or_asks_for_it() {
        let mut actions = Actions::default();
        assert!(
            !actions.reaps_children(),
            "the default ignores the signal, not the child"
        );
        let old = actions.set(SIGCHLD, Action::IGNORE);
        assert_eq!(old, Action::DEFAULT);
        assert!(actions.reaps_children());
        actions.set(SIGCHLD, caught(ActionFlags::NOCLDWAIT));
        assert!(actions.reaps_children());
        actions.set(SIGCHLD, caught(ActionFlags::NOCLDSTOP));
        assert!(!actions.reaps_children());
    }
}
