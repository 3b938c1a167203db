//! Lock ranks of the kernel crate: a lock may be taken only while every held lock has a lower rank;
//! the memory manager's ranks (200 and up, see its `sync`) come after all of these.

#![allow(missing_docs)]

locks::named_ranks! {
    /// Renames and removals in the tree of files; under it, walks come through /proc, which asks
    /// processes.
    pub const TREE: u8 = 100;
    pub const PROCESS_TABLE: u8 = 105;
    pub const PROCESS: u8 = 110;
    pub const TASK: u8 = 115;
    pub const SIGNAL: u8 = 120;
    pub const FILES: u8 = 130;
    pub const FS_CONTEXT: u8 = 135;
    pub const MOUNTS: u8 = 140;
    pub const INODE_DIR: u8 = 145;
    pub const INODE: u8 = 150;
    /// What a set of files watches.
    pub const EPOLL_ITEMS: u8 = 153;
    pub const OPEN_FILE: u8 = 155;
    pub const PIPE: u8 = 160;
    pub const TTY: u8 = 165;
    /// Which segments of shared memory there are.
    pub const SHM_TABLE: u8 = 167;
    /// What changes of one of them.
    pub const SHM_SEGMENT: u8 = 168;
    /// The device of zram.
    pub const ZRAM: u8 = 169;
    pub const FUTEX: u8 = 170;
    /// Which number is which userfaultfd.
    pub const USERFAULTS: u8 = 172;
    /// What a userfaultfd is asked.
    pub const USERFAULT: u8 = 173;
    /// What it is told of.
    pub const USERFAULT_EVENTS: u8 = 174;
    pub const TIMERS: u8 = 175;
    /// Which files of a set may be ready: entered by what wakes a queue.
    pub const EPOLL_READY: u8 = 178;
    pub const WAIT_QUEUE: u8 = 180;
    pub const SCHEDULER: u8 = 185;
    /// Which address space a thread or a process has: looked up by each fault.
    pub const THREAD_SPACE: u8 = 187;
    /// Time in which threads waited for memory.
    pub const STALLS: u8 = 188;
    pub const RANDOM: u8 = 190;
    pub const KERNEL_STACKS: u8 = 192;
    /// Above the memory manager's: every room may log.
    pub const LOG: u8 = 255;
}
