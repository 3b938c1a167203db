//! Signals by number, signal(7).

use linux_raw_sys::general as abi;

macro_rules! signals {
    ($($name:ident)*) => {
        $(#[doc = concat!("signal(7): ", stringify!($name))]
        pub const $name: i32 = abi::$name as i32;)*
    };
}

signals! {
    SIGHUP SIGINT SIGQUIT SIGILL SIGTRAP SIGABRT SIGBUS SIGFPE SIGKILL SIGSEGV SIGPIPE SIGALRM SIGCHLD SIGCONT SIGSTOP
    SIGTSTP SIGTTIN SIGTTOU SIGURG SIGXCPU SIGXFSZ SIGWINCH SIGSYS
}
