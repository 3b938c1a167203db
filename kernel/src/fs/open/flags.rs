//! Flags of open(2).

use linux_raw_sys::general as c;

bitflags::bitflags! {
    /// O_*. O_RDONLY is none of them.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct OpenFlags: u32 {
        /// O_WRONLY.
        const WRONLY = c::O_WRONLY;
        /// O_RDWR.
        const RDWR = c::O_RDWR;
        /// O_CREAT: makes the file unless it is there.
        const CREAT = c::O_CREAT;
        /// O_EXCL: with O_CREAT, EEXIST when the file is there.
        const EXCL = c::O_EXCL;
        /// O_NOCTTY: a terminal does not become the controlling one.
        const NOCTTY = c::O_NOCTTY;
        /// O_TRUNC: empties the file.
        const TRUNC = c::O_TRUNC;
        /// O_APPEND: writes go to the end.
        const APPEND = c::O_APPEND;
        /// O_NONBLOCK: EAGAIN instead of waiting.
        const NONBLOCK = c::O_NONBLOCK;
        /// O_SYNC and O_DSYNC, without effect: there is no disk.
        const SYNC = c::O_SYNC;
        /// O_ASYNC, without effect.
        const ASYNC = c::FASYNC;
        /// O_DIRECT, without effect.
        const DIRECT = c::O_DIRECT;
        /// O_LARGEFILE: every file may be large.
        const LARGEFILE = c::O_LARGEFILE;
        /// O_DIRECTORY: ENOTDIR for anything else.
        const DIRECTORY = c::O_DIRECTORY;
        /// O_NOFOLLOW: ELOOP for a symbolic link.
        const NOFOLLOW = c::O_NOFOLLOW;
        /// O_NOATIME, without effect.
        const NOATIME = c::O_NOATIME;
        /// O_CLOEXEC: execve closes the descriptor.
        const CLOEXEC = c::O_CLOEXEC;
        /// O_PATH: a place in the tree, not its contents.
        const PATH = c::O_PATH;
        /// O_TMPFILE: a file without a name. Includes O_DIRECTORY.
        const TMPFILE = c::O_TMPFILE;
    }
}

impl OpenFlags {
    /// O_ACCMODE.
    const ACCESS: OpenFlags = OpenFlags::WRONLY.union(OpenFlags::RDWR);

    /// Flags that fcntl(F_SETFL) may change.
    pub const CHANGEABLE: OpenFlags = OpenFlags::APPEND
        .union(OpenFlags::NONBLOCK)
        .union(OpenFlags::DIRECT)
        .union(OpenFlags::NOATIME)
        .union(OpenFlags::ASYNC);

    /// Flags that say what to do once and are not kept.
    pub const ONCE: OpenFlags = OpenFlags::CREAT
        .union(OpenFlags::EXCL)
        .union(OpenFlags::NOCTTY)
        .union(OpenFlags::TRUNC)
        .union(OpenFlags::CLOEXEC);

    /// Whether the access mode allows reads.
    #[inline]
    pub fn reads(self) -> bool {
        self & Self::ACCESS != Self::WRONLY
    }

    /// Whether the access mode allows writes.
    #[inline]
    pub fn writes(self) -> bool {
        self.intersects(Self::ACCESS)
    }
}
