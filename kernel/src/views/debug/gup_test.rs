//! gup_test (mm/gup_test.h, core-api/pin_user_pages.rst): a program takes references and pins of
//! its own pages as a driver would, and sees the pages through them. The tests of Linux's selftests
//! that are about pins open it.
//!
//! Linux's get_user_pages takes references, and its pin_user_pages pins, for a short or a long
//! time, without locks where it can. Here pins are all long-term and taken in one way; a reference
//! for reading is a pipe's, and one for writing a pin, too. All files are of memory: none has pages
//! that may not be pinned for writing, as Linux's have that are written back.

use crate::arch::timer;
use crate::base::errno::{Errno, Result};
use crate::base::machine::{AddressSpace, Hw, mm};
use crate::base::ranks;
use crate::base::uaccess;
use crate::base::user_ptr::{UserBytes, UserPtr};
use crate::fs::OpenFlags;
use crate::fs::open::ops::FileOps;
use crate::fs::tree::inode::{FileKind, Inode, Node};
use crate::process::task::{self, Task};
use crate::process::userfault::{self, Answer, Mode};
use crate::sched;
use alloc::sync::Arc;
use alloc::vec::Vec;
use mm::addr::{PAGE_SIZE, VirtAddr};
use mm::fault::{Access, Pin, Resolution};
use mm::sync::Lock;

const GUP_FAST_BENCHMARK: u32 = 0xc050_6701;
const PIN_FAST_BENCHMARK: u32 = 0xc050_6702;
const PIN_LONGTERM_BENCHMARK: u32 = 0xc050_6703;
const GUP_BASIC_TEST: u32 = 0xc050_6704;
const PIN_BASIC_TEST: u32 = 0xc050_6705;
const DUMP_USER_PAGES_TEST: u32 = 0xc050_6706;
const PIN_LONGTERM_TEST_START: u32 = 0x4018_6707;
const PIN_LONGTERM_TEST_STOP: u32 = 0x6708;
const PIN_LONGTERM_TEST_READ: u32 = 0x4008_6709;

/// FOLL_WRITE: the only one of `gup_flags` that is there.
const FOLL_WRITE: u32 = 1;
/// GUP_TEST_FLAG_DUMP_PAGES_USE_PIN.
const DUMPS_PINS: u32 = 1;
/// PIN_LONGTERM_TEST_FLAG_*.
const USE_WRITE: u32 = 1;
const USE_FAST: u32 = 2;

/// The file: root's.
pub fn file(device: u64) -> Arc<dyn Inode> {
    Arc::new(File(Node::new(device, FileKind::Regular, 0o600)))
}

struct File(Node);

impl Inode for File {
    fn node(&self) -> &Node {
        &self.0
    }
    fn open(self: Arc<Self>, _flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
        Ok(Arc::new(GupTest {
            started: Lock::new(None),
        }))
    }
}

/// The open file.
struct GupTest {
    /// What PIN_LONGTERM_TEST_START has pinned. In Linux all open files have it in common.
    started: Lock<Option<Arc<Pins>>, { ranks::OPEN_FILE }>,
}

impl FileOps for GupTest {
    /// EINVAL, EFAULT, ENOMEM, EINTR.
    fn ioctl(&self, command: u32, argument: u64) -> Result<u64> {
        let at = UserPtr::from(argument);
        match command {
            GUP_FAST_BENCHMARK | GUP_BASIC_TEST => measure(at, Of::References)?,
            PIN_FAST_BENCHMARK | PIN_LONGTERM_BENCHMARK | PIN_BASIC_TEST => measure(at, Of::Pins)?,
            DUMP_USER_PAGES_TEST => measure(at, Of::Shown)?,
            PIN_LONGTERM_TEST_START => self.start(at)?,
            PIN_LONGTERM_TEST_STOP => drop(self.taken_off()),
            PIN_LONGTERM_TEST_READ => self.read(at)?,
            _ => return Err(Errno::EINVAL),
        }
        Ok(0)
    }
}

impl GupTest {
    /// `struct pin_longterm_test` is address, size, flags. EINVAL: it was started already.
    fn start(&self, at: UserPtr<u64>) -> Result {
        let (from, size) = (at.read()?, at.element(1).read()?);
        let access = match at.field::<u32>(16).read()? & !USE_FAST {
            0 => Access::Read,
            USE_WRITE => Access::Write,
            _ => return Err(Errno::EINVAL),
        };
        if self.started.lock().is_some() {
            return Err(Errno::EINVAL);
        }
        let (pins, ended) = Pins::take(from, size, Taken::Pin(access))?;
        ended?;
        let mut started = self.started.lock();
        if started.is_some() {
            return Err(Errno::EINVAL);
        }
        *started = Some(Arc::new(pins));
        Ok(())
    }

    fn taken_off(&self) -> Option<Arc<Pins>> {
        self.started.lock().take()
    }

    /// Copies the pages, as the pins see them, to where the word says. EINVAL: nothing is pinned.
    fn read(&self, at: UserPtr<u64>) -> Result {
        let pins = self.started.lock().clone().ok_or(Errno::EINVAL)?;
        let into = UserBytes {
            first: at.read()?.into(),
            len: pins.bytes(),
        };
        let mut bytes = fallible::filled(0, PAGE_SIZE as usize)?;
        for (n, pin) in (0..).zip(&pins.0) {
            pin.read(0, &mut bytes);
            into.write(n * PAGE_SIZE, &bytes)?;
            if sched::breathe() {
                return Err(Errno::EINTR);
            }
        }
        Ok(())
    }
}

/// What a test or benchmark is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    References,
    Pins,
    /// Either, which the kernel's log shows.
    Shown,
}

/// `struct gup_test` is the times in us for taking and for giving back, address, size, and words of
/// half the length: pages for each call, flags, flags of the test, numbers of pages to show. All
/// that can be had up to the first page that cannot be is taken; the size says how much that was.
/// How many pages a call takes makes no difference, as long as there are some: each is taken alone.
fn measure(at: UserPtr<u64>, of: Of) -> Result {
    let (from, size) = (at.element(2).read()?, at.element(3).read()?);
    let [per_call, flags, test_flags, shown @ ..] = at.field::<[u32; 11]>(32).read()?;
    let known = if of == Of::Shown { DUMPS_PINS } else { 0 };
    if per_call == 0 || flags & !FOLL_WRITE != 0 || test_flags & !known != 0 {
        return Err(Errno::EINVAL);
    }
    let taken = match (of, flags) {
        (_, FOLL_WRITE) => Taken::Pin(Access::Write),
        (Of::Pins, _) => Taken::Pin(Access::Read),
        _ if test_flags & DUMPS_PINS != 0 => Taken::Pin(Access::Read),
        _ => Taken::Reference,
    };
    let begin = timer::now();
    let (pins, ended) = Pins::take(from, size, taken)?;
    let get_us = us_since(begin);
    if ended == Err(Errno::EINTR) {
        return ended;
    }
    if of == Of::Shown {
        pins.show(from, shown);
    }
    let (bytes, begin) = (pins.bytes(), timer::now());
    drop(pins);
    let put_us = us_since(begin);
    at.write(&get_us)?;
    at.element(1).write(&put_us)?;
    at.element(3).write(&bytes)
}

fn us_since(begin: u64) -> u64 {
    timer::now().saturating_sub(begin) / 1000
}

/// Pins of pages that follow each other; others are let in while they go.
struct Pins(Vec<Pin<Hw>>);

impl Drop for Pins {
    fn drop(&mut self) {
        while self.0.pop().is_some() {
            sched::breathe();
        }
    }
}

impl Pins {
    /// Takes the pages of so many bytes of the caller's memory, or those before the first that
    /// cannot be had, and why that is: EFAULT, ENOMEM, EINTR. EINVAL: a part of a page, or none.
    fn take(from: u64, size: u64, taken: Taken) -> Result<(Pins, Result)> {
        if size == 0 || !(from | size).is_multiple_of(PAGE_SIZE) {
            return Err(Errno::EINVAL);
        }
        uaccess::check(from, size as usize)?;
        let task = task::current();
        let space = task.space.get().ok_or(Errno::ESRCH)?;
        let mut pins = Pins(Vec::new());
        fallible::reserve_exact(&mut pins.0, (size / PAGE_SIZE) as usize)?;
        for at in (from..from + size).step_by(PAGE_SIZE as usize) {
            match taken.page(&task, &space, VirtAddr(at)) {
                Ok(pin) => pins.0.push(pin),
                Err(why) => return Ok((pins, Err(why))),
            }
            if sched::breathe() {
                return Ok((pins, Err(Errno::EINTR)));
            }
        }
        Ok((pins, Ok(())))
    }

    fn bytes(&self) -> u64 {
        self.0.len() as u64 * PAGE_SIZE
    }

    /// Shows the pages of these numbers, the first of which is 1; 0 is none.
    fn show(&self, from: u64, numbers: [u32; 8]) {
        for number in numbers.into_iter().filter(|number| *number != 0) {
            let n = number as usize - 1;
            match self.0.get(n).map(Pin::frame) {
                Some(frame) => log::info!(
                    "gup_test: page {n} at {:#x} is {frame:?}: {:?}",
                    from + n as u64 * PAGE_SIZE,
                    mm().frame_info(frame)
                ),
                None => log::info!("gup_test: there is no page {n}"),
            }
        }
    }
}

/// What is taken of a page.
#[derive(Clone, Copy)]
enum Taken {
    Reference,
    Pin(Access),
}

impl Taken {
    /// Takes it, after what a userfaultfd has to say. EFAULT, ENOMEM, EINTR.
    fn page(self, task: &Arc<Task>, space: &AddressSpace, at: VirtAddr) -> Result<Pin<Hw>> {
        loop {
            // A pin for reading may have to copy, which counts as a write.
            let (pin, asks) = match self {
                Taken::Reference => (space.pin(at), Access::Read),
                Taken::Pin(access) => (space.pin_long_term(at, access), Access::Write),
            };
            match pin {
                Ok(pin) => return Ok(pin),
                Err(Resolution::Userfault) => match userfault::ask(task, at, asks, Mode::Kernel) {
                    Answer::Again => {}
                    Answer::Refused => return Err(Errno::EFAULT),
                    Answer::Interrupted => return Err(Errno::EINTR),
                },
                Err(Resolution::NoMem) => return Err(Errno::ENOMEM),
                Err(_) => return Err(Errno::EFAULT),
            }
        }
    }
}
