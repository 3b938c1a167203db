//! The thread that waits: from its fault until it may try again.

use super::{Features, Message, Monitor, numbers};
use crate::base::machine::AddressSpace;
use crate::fs::open::ops::Ready;
use crate::process::task::Task;
use crate::sched;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};
use mm::addr::VirtAddr;
use mm::fault::{Access, Asked, Question as Kind};

/// UFFD_EVENT_PAGEFAULT.
const PAGEFAULT: u8 = 0x12;
/// UFFD_PAGEFAULT_FLAG_*.
const WRITE: u64 = 1;
const WRITE_PROTECTED: u64 = 2;
const MINOR: u64 = 4;

/// Who has made the access.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The program: a signal ends the wait, and the instruction is repeated after its handler.
    User,
    /// The kernel for it: only its end ends the wait.
    Kernel,
}

/// What comes of a question.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The access is to be tried again.
    Again,
    /// The monitor is not asked: SIGBUS, or EFAULT.
    Refused,
    /// A signal came first.
    Interrupted,
}

/// A page that a thread waits for.
pub(super) struct Question {
    /// The page.
    pub page: VirtAddr,
    /// What the monitor reads.
    pub message: Message,
    read: AtomicBool,
    answered: AtomicBool,
}

impl Question {
    fn new(asked: &Asked, task: &Task, addr: VirtAddr, access: Access, features: Features) -> Self {
        let page = asked.page;
        let write = if access == Access::Write { WRITE } else { 0 };
        let flags = match asked.question {
            Kind::Missing => write,
            Kind::WriteProtected => write | WRITE_PROTECTED,
            Kind::Minor => write | MINOR,
        };
        let shown = match features.contains(Features::EXACT_ADDRESS) {
            true => addr,
            false => page,
        };
        let thread = match features.contains(Features::THREAD_ID) {
            true => task.tid(),
            false => 0,
        };
        let mut message = [0; 32];
        message[0] = PAGEFAULT;
        message[8..16].copy_from_slice(&flags.to_ne_bytes());
        message[16..24].copy_from_slice(&shown.0.to_ne_bytes());
        message[24..28].copy_from_slice(&thread.to_ne_bytes());
        Question {
            page,
            message,
            read: AtomicBool::new(false),
            answered: AtomicBool::new(false),
        }
    }

    /// Whether the monitor has read it; under the lock of the questions.
    pub fn is_read(&self) -> bool {
        self.read.load(Ordering::Relaxed)
    }
    pub fn set_read(&self) {
        self.read.store(true, Ordering::Relaxed);
    }
    /// The thread may go on.
    pub fn answer(&self) {
        // Pairs with the load in `wait`: what the answer changed is seen.
        self.answered.store(true, Ordering::Release);
    }
    fn is_answered(&self) -> bool {
        self.answered.load(Ordering::Acquire)
    }
}

impl Monitor {
    /// Enters a question; `false`: the file is closed, or there is no memory.
    fn enter(&self, question: &Arc<Question>) -> bool {
        let mut questions = self.questions.lock();
        let Some(questions) = &mut *questions else {
            return false;
        };
        fallible::push(questions, question.clone()).is_ok()
    }

    fn leave(&self, question: &Arc<Question>) {
        if let Some(questions) = &mut *self.questions.lock() {
            questions.retain(|it| !Arc::ptr_eq(it, question));
        }
    }

    /// Waits for the answer to a question; `false`: a signal came first.
    fn wait(&self, question: &Question, mode: Mode, is_still_asked: impl Fn() -> bool) -> bool {
        let ready = || (question.is_answered() || !is_still_asked()).then_some(());
        match mode {
            Mode::User => self.answered.wait(None, ready).is_ok(),
            Mode::Kernel => self.answered.wait_killable(ready).is_ok(),
        }
    }
}

/// Asks the monitor of the memory at `addr`, after [`mm::fault::Resolution::Userfault`], and waits.
/// The caller holds no lock but the kernel lock.
#[cold]
pub fn ask(task: &Arc<Task>, addr: VirtAddr, access: Access, mode: Mode) -> Answer {
    let asked = task
        .space
        .lend(|space| ask_in(space, task, addr, access, mode));
    asked.unwrap_or(Answer::Again)
}

fn ask_in(space: &AddressSpace, task: &Task, addr: VirtAddr, access: Access, mode: Mode) -> Answer {
    let Some(asked) = space.asked(addr, access) else {
        return Answer::Again;
    };
    let Some(monitor) = numbers::find(asked.monitor) else {
        return closing();
    };
    let features = monitor.features();
    if features.contains(Features::SIGBUS) || mode == Mode::Kernel && monitor.user_only {
        return Answer::Refused;
    }
    let question = Arc::new(Question::new(&asked, task, addr, access, features));
    if !monitor.enter(&question) {
        return closing();
    }
    monitor.readable.wake_for(Ready::IN.bits());
    let is_still_asked = || space.asked(addr, access) == Some(asked);
    let answered = monitor.wait(&question, mode, is_still_asked);
    monitor.leave(&question);
    match answered {
        true => Answer::Again,
        false => Answer::Interrupted,
    }
}

/// The monitor is being closed, or there is no memory to ask it: soon that has changed.
fn closing() -> Answer {
    match sched::breathe() {
        true => Answer::Interrupted,
        false => Answer::Again,
    }
}
