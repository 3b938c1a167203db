//! userfaultfd(2): a file through which a program resolves page faults itself.
//!
//! ```text
//!   thread: fault -> Resolution::Userfault -> enters its question, sleeps ---------------> tries again
//!                                          |                                            ^
//!   monitor's thread:                      read, poll -> UFFDIO_COPY ... -> UFFDIO_WAKE |
//! ```
//! The memory manager knows a monitor by a number only ([`numbers`]). A question is entered first,
//! and whether it is still one is asked afterwards: an answer given in between is not missed. A
//! monitor that is closed answers all: its memory is registered no more.

mod control;
mod events;
mod numbers;
mod question;

pub use events::{Change, Concerned, are_told, forked, while_moving};
pub use question::{Answer, Mode, ask};

use crate::base::errno::{Errno, Result};
use crate::base::machine::{Space, WeakSpace};
use crate::base::ranks;
use crate::fs::OpenFlags;
use crate::fs::kinds::anonymous;
use crate::fs::kinds::pseudo::Text;
use crate::fs::open::file::OpenFile;
use crate::fs::open::io::Sink;
use crate::fs::open::ops::{At, FileOps, Ready};
use crate::process::task::Task;
use crate::sched::wait::WaitQueue;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use events::Event;
use linux_raw_sys::general as abi;
use mm::addr::VirtRange;
use mm::sync::Lock;
use question::Question;

bitflags::bitflags! {
    /// UFFD_FEATURE_* that are there.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    struct Features: u64 {
        const PAGEFAULT_FLAG_WP = 1 << 0;
        const EVENT_FORK = 1 << 1;
        const EVENT_REMAP = 1 << 2;
        const EVENT_REMOVE = 1 << 3;
        const MISSING_HUGETLBFS = 1 << 4;
        const MISSING_SHMEM = 1 << 5;
        const EVENT_UNMAP = 1 << 6;
        const SIGBUS = 1 << 7;
        const THREAD_ID = 1 << 8;
        const MINOR_HUGETLBFS = 1 << 9;
        const MINOR_SHMEM = 1 << 10;
        const EXACT_ADDRESS = 1 << 11;
        const WP_HUGETLBFS_SHMEM = 1 << 12;
        const WP_UNPOPULATED = 1 << 13;
        const POISON = 1 << 14;
        const WP_ASYNC = 1 << 15;
        const MOVE = 1 << 16;
        /// All that are about changes of memory.
        const EVENTS = Self::EVENT_FORK.bits()
            | Self::EVENT_REMAP.bits()
            | Self::EVENT_REMOVE.bits()
            | Self::EVENT_UNMAP.bits();
        /// Not Linux's: UFFDIO_API was called.
        const READY = 1 << 63;
    }
}

/// `struct uffd_msg`.
type Message = [u8; 32];

/// What a file and the threads that wait for it share.
pub struct Monitor {
    /// What VMAs are registered with.
    number: u16,
    /// The memory that it is about: the one of its maker. The file does not keep it.
    space: WeakSpace,
    /// UFFD_USER_MODE_ONLY: faults of the kernel are not for it.
    user_only: bool,
    /// O_NONBLOCK and O_CLOEXEC, for the files of children.
    nonblocking: bool,
    close_on_exec: bool,
    /// [`Features`]. Relaxed: it is set once, and what depends on it is registered afterwards.
    features: AtomicU64,
    /// `None` once the file is closed.
    questions: Lock<Option<Vec<Arc<Question>>>, { ranks::USERFAULT }>,
    /// What it is told of, in order.
    events: Lock<Vec<Arc<Event>>, { ranks::USERFAULT_EVENTS }>,
    /// Changes that are being made.
    changes: AtomicU32,
    /// How many were begun.
    begun: AtomicU32,
    /// There is something to be read.
    readable: WaitQueue,
    /// Some questions are answered.
    answered: WaitQueue,
    /// Some events are read.
    told: WaitQueue,
}

impl Monitor {
    fn new(number: u16, space: WeakSpace, flags: Flags) -> Monitor {
        Monitor {
            number,
            space,
            user_only: flags.contains(Flags::USER_MODE_ONLY),
            nonblocking: flags.contains(Flags::NONBLOCK),
            close_on_exec: flags.contains(Flags::CLOEXEC),
            features: AtomicU64::new(0),
            questions: Lock::new(Some(Vec::new())),
            events: Lock::new(Vec::new()),
            changes: AtomicU32::new(0),
            begun: AtomicU32::new(0),
            readable: WaitQueue::new(),
            answered: WaitQueue::new(),
            told: WaitQueue::new(),
        }
    }

    /// One for the memory of a child.
    fn like(parent: &Monitor, number: u16, space: WeakSpace) -> Monitor {
        Monitor {
            user_only: parent.user_only,
            nonblocking: parent.nonblocking,
            close_on_exec: parent.close_on_exec,
            features: AtomicU64::new(parent.features().bits()),
            ..Monitor::new(number, space, Flags::empty())
        }
    }

    fn features(&self) -> Features {
        Features::from_bits_retain(self.features.load(Relaxed))
    }

    /// Takes the first message that nobody has read: a question, or else an event.
    fn take(&self) -> Option<Result<Message>> {
        let questions = self.questions.lock();
        if let Some(question) = questions.iter().flatten().find(|it| !it.is_read()) {
            question.set_read();
            return Some(Ok(question.message));
        }
        drop(questions);
        self.take_event()
    }

    /// Whether there is a message that nobody has read.
    fn is_readable(&self) -> bool {
        let asked = self
            .questions
            .lock()
            .iter()
            .flatten()
            .any(|it| !it.is_read());
        asked || !self.events.lock().is_empty()
    }

    /// Answers all questions about pages in `range`: UFFDIO_WAKE.
    fn wake(&self, range: VirtRange) {
        let mut any = false;
        if let Some(questions) = &mut *self.questions.lock() {
            questions.retain(|question| {
                let inside = range.contains(question.page);
                if inside {
                    question.answer();
                }
                any |= inside;
                !inside
            });
        }
        if any {
            self.answered.wake_all();
        }
    }

    /// The file is closed.
    fn close(&self) {
        let questions = self.questions.lock().take();
        if let Some(space) = self.space.upgrade() {
            space.userfault_forget(self.number);
        }
        self.end_events();
        numbers::give_back(self.number);
        questions.iter().flatten().for_each(|it| it.answer());
        self.answered.wake_all();
    }
}

/// The open file.
struct UserFaultFd(Arc<Monitor>);

impl FileOps for UserFaultFd {
    /// Whole messages. EINVAL: UFFDIO_API was not called, or there is no room for one.
    fn read(&self, at: At, sink: &mut Sink<'_>) -> Result<usize> {
        let monitor = &self.0;
        if !monitor.features().contains(Features::READY) || sink.left() < size_of::<Message>() {
            return Err(Errno::EINVAL);
        }
        let take = || monitor.take();
        let mut next = Some(monitor.readable.wait_unless(at.nonblocking, take)?);
        let mut done = 0;
        while let Some(message) = next {
            // As on Linux, what memory refuses counts as read.
            let message = match message {
                Err(why) if done == 0 => return Err(why),
                Err(_) => break,
                Ok(message) => message,
            };
            match sink.give(&message)? {
                n if n == message.len() => done += n,
                _ => return Err(Errno::EFAULT),
            }
            next = match sink.left() < message.len() {
                true => None,
                false => monitor.take(),
            };
        }
        Ok(done)
    }

    fn is_stream(&self) -> bool {
        true
    }

    /// Unlike Linux, also of a file without O_NONBLOCK.
    fn poll(&self) -> Ready {
        let monitor = &self.0;
        if !monitor.features().contains(Features::READY) {
            return Ready::ERR;
        }
        let mut ready = Ready::empty();
        ready.set(Ready::IN, monitor.is_readable());
        ready
    }

    fn queues<'a>(&'a self, queues: &mut Vec<&'a WaitQueue>) {
        queues.push(&self.0.readable);
    }

    fn ioctl(&self, command: u32, argument: u64) -> Result<u64> {
        control::ioctl(&self.0, command, argument)
    }

    fn describe(&self, out: &mut Text) {
        let questions = self.0.questions.lock();
        let total = questions.as_ref().map_or(0, Vec::len);
        let unread = questions.iter().flatten().filter(|it| !it.is_read());
        let (pending, features) = (unread.count(), self.0.features());
        let api = features.bits() & !Features::READY.bits();
        out.put(format_args!(
            "pending:\t{pending}\ntotal:\t{total}\nAPI:\taa:{api:x}:3f\n"
        ));
    }
}

impl Drop for UserFaultFd {
    fn drop(&mut self) {
        self.0.close();
    }
}

bitflags::bitflags! {
    /// Flags of userfaultfd(2).
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Flags: u64 {
        /// UFFD_USER_MODE_ONLY: faults in system calls are not for it.
        const USER_MODE_ONLY = 1;
        /// O_NONBLOCK.
        const NONBLOCK = abi::O_NONBLOCK as u64;
        /// O_CLOEXEC.
        const CLOEXEC = abi::O_CLOEXEC as u64;
    }
}

/// A descriptor of a new file about the memory of the caller. EINVAL: unknown flags; ENFILE: there
/// are too many; ENOMEM, EMFILE.
pub fn open(task: &Task, flags: u64) -> Result<u64> {
    let flags = Flags::from_bits(flags).ok_or(Errno::EINVAL)?;
    let space = task.space.with(Space::downgrade).unwrap_or_default();
    let monitor = numbers::enter(|number| Monitor::new(number, space, flags))?;
    let file = file_of(monitor, flags.contains(Flags::NONBLOCK));
    let close_on_exec = flags.contains(Flags::CLOEXEC);
    Ok(task.files().install(file, close_on_exec)?.to_return())
}

/// The file of a monitor, which has none yet.
fn file_of(monitor: Arc<Monitor>, nonblocking: bool) -> Arc<OpenFile> {
    let mut flags = OpenFlags::RDWR;
    flags.set(OpenFlags::NONBLOCK, nonblocking);
    let ops = Arc::new(UserFaultFd(monitor));
    anonymous::open("anon_inode:[userfaultfd]", ops, flags)
}
