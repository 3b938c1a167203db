//! Linux's error numbers, and those of the memory manager's errors.

use linux_raw_sys::errno;

/// An error number, positive as in `<errno.h>`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub i32);

/// What system call code returns.
pub type Result<T = ()> = core::result::Result<T, Errno>;

macro_rules! numbers {
    ($($name:ident)*) => {
        /// Named as in `<errno.h>`; see errno(3).
        #[allow(missing_docs)]
        impl Errno {
            $(pub const $name: Errno = Errno(errno::$name as i32);)*
        }

        impl core::fmt::Debug for Errno {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match *self {
                    $(Errno::$name => f.write_str(stringify!($name)),)*
                    Errno(n) => write!(f, "errno {n}"),
                }
            }
        }
    };
}

numbers! {
    EPERM ENOENT ESRCH EINTR EIO ENXIO E2BIG ENOEXEC EBADF ECHILD EAGAIN ENOMEM EACCES EFAULT ENOTBLK EBUSY EEXIST
    EXDEV ENODEV ENOTDIR EISDIR EINVAL ENFILE EMFILE ENOTTY ETXTBSY EFBIG ENOSPC ESPIPE EROFS EMLINK EPIPE EDOM ERANGE
    EDEADLK ENAMETOOLONG ENOLCK ENOSYS ENOTEMPTY ELOOP EOVERFLOW ENOTSOCK EOPNOTSUPP EAFNOSUPPORT ETIMEDOUT ENODATA EIDRM
    EMSGSIZE EPROTONOSUPPORT ESOCKTNOSUPPORT ECONNRESET ECONNREFUSED EISCONN ENOTCONN EADDRINUSE EPROTOTYPE
    ETOOMANYREFS ENOBUFS ENOPROTOOPT ELIBBAD EHWPOISON
}

impl Errno {
    /// Never seen by a program: the call was interrupted before it did anything and is repeated, or
    /// ends with EINTR, as the signal's action says (SA_RESTART).
    pub const ERESTARTSYS: Errno = Errno(512);

    /// As [`Errno::ERESTARTSYS`], but a handler ends the call with EINTR whatever SA_RESTART says
    /// (poll, sleep).
    pub const ERESTARTNOHAND: Errno = Errno(514);

    /// The value a system call returns: the negated number.
    pub const fn to_return(self) -> u64 {
        -(self.0 as i64) as u64
    }
}

impl From<mm::Error> for Errno {
    fn from(error: mm::Error) -> Errno {
        use mm::Error;
        match error {
            Error::Inval => Errno::EINVAL,
            Error::NoMem => Errno::ENOMEM,
            Error::Exist => Errno::EEXIST,
            Error::Acces => Errno::EACCES,
            Error::Again => Errno::EAGAIN,
            Error::Fault => Errno::EFAULT,
            Error::Perm => Errno::EPERM,
            Error::NoEnt => Errno::ENOENT,
            Error::Busy => Errno::EBUSY,
            Error::HwPoison => Errno::EHWPOISON,
            Error::Interrupted => Errno::EINTR,
        }
    }
}

impl From<fallible::OutOfMemory> for Errno {
    fn from(_: fallible::OutOfMemory) -> Errno {
        Errno::ENOMEM
    }
}
