//! Signals by number, signal(7); what comes with one, and what is pending.

mod action;
mod info;
mod pending;

pub use action::{Action, ActionFlags, Actions, Default, Disposition};
pub use info::{FdInfo, Fields, SigInfo};
pub use pending::{Pending, QueueFull, queued};

use linux_raw_sys::general as abi;

macro_rules! signals {
    ($($name:ident)*) => {
        $(#[doc = concat!("signal(7): ", stringify!($name))]
        pub const $name: i32 = abi::$name as i32;)*
    };
}

signals! {
    SIGHUP SIGINT SIGQUIT SIGILL SIGTRAP SIGABRT SIGBUS SIGFPE SIGKILL SIGSEGV SIGPIPE SIGALRM SIGTERM SIGCHLD SIGCONT SIGSTOP
    SIGTSTP SIGTTIN SIGTTOU SIGURG SIGXCPU SIGXFSZ SIGWINCH SIGSYS
}

/// A set of signals: bit n-1 is signal n.
pub type SigSet = u64;

/// The highest signal number.
pub const LAST: i32 = 64;
/// The first real-time signal as the kernel counts.
pub const FIRST_REALTIME: i32 = 32;
/// Signals that cannot be blocked, caught or ignored.
pub const UNBLOCKABLE: SigSet = bit(SIGKILL) | bit(SIGSTOP);
/// Signals that stop a process by default.
pub const STOPPING: SigSet = bit(SIGSTOP) | bit(SIGTSTP) | bit(SIGTTIN) | bit(SIGTTOU);

/// The set with this one signal (1 to 64).
pub const fn bit(signo: i32) -> SigSet {
    1 << (signo - 1)
}
