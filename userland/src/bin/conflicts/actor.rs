//! One of the two that act: a thread or a process, on a CPU of its own.
use crate::board::{Board, Order};
use crate::op::Op;
use crate::plan::{Cell, Place};
use crate::site::{self, Holder, Site};
use std::sync::atomic::Ordering::SeqCst;
use userland::marks::Marks;
use userland::sys::mem::PAGE;
use userland::sys::{Result, call, cpus, proc};

/// The CPU of the conductor, and of all that is not measured.
pub const ASIDE: usize = 2;

/// An actor.
#[derive(Clone, Copy)]
pub struct Actor<'a> {
    /// 0 or 1: its CPU, too.
    pub which: usize,
    /// What it is of.
    pub cell: Cell,
    /// Where it acts.
    pub site: Site,
    /// By what it is told.
    pub board: Board,
    /// By what it says where a measurement begins and ends.
    pub marks: &'a Marks,
}

impl Actor<'_> {
    fn op(&self) -> Op {
        self.cell.ops[self.which]
    }

    fn is_thread(&self) -> bool {
        self.cell.place != Place::OtherSpace
    }

    /// Obeys orders until it is told to end, or ends by its operation.
    pub fn obey(&self) {
        let bound = cpus::bind(0, &[self.which]);
        let mut last = 0;
        let mut holder = None;
        loop {
            let order = self.board.next(self.which, &mut last);
            let how = match order {
                Order::Rehearse => bound.and_then(|()| self.rehearse()),
                Order::Prepare => self.prepare().map(|held| holder = Some(held)),
                Order::Perform => self.play(),
                Order::End => Ok(()),
            };
            if order == Order::End {
                drop(holder.take());
            }
            self.board.obey(self.which, last, how);
            if order == Order::End {
                return;
            }
        }
    }

    /// Does the operation elsewhere, and what is between the marks as it will be.
    fn rehearse(&self) -> Result<()> {
        if self.op() == Op::Exit {
            return proc::wait_for(proc::child(|| Ok(()))?).map(drop);
        }
        let site = Site::one()?;
        let held = site::prepare(&[(self.op(), site)])?;
        let argument = self.op().argument(&site);
        settle();
        let said = self.between(&site, argument, "rehearsal");
        let done = self.look(&site, argument, said);
        drop(held);
        self.end_child();
        done
    }

    /// Makes the state in a space of its own, on a CPU that has no part in it.
    fn prepare(&self) -> Result<Holder> {
        cpus::bind(0, &[ASIDE])?;
        let held = site::prepare(&[(self.op(), self.site)])?;
        cpus::bind(0, &[self.which])?;
        Ok(held)
    }

    fn play(&self) -> Result<()> {
        let name = self.cell.mark(self.which);
        if self.op() == Op::Exit {
            self.leave(&name)
        }
        let argument = self.op().argument(&self.site);
        settle();
        let said = self.between(&self.site, argument, &name);
        self.look(&self.site, argument, said)
    }

    /// The measurement.
    #[inline(never)]
    fn between(&self, site: &Site, argument: usize, name: &str) -> isize {
        self.marks.begin(name);
        let said = self.op().perform(site, argument);
        self.marks.end();
        if said == 0 && self.op() == Op::Fork {
            self.step_aside();
        }
        said
    }

    /// Whether it did what it is for; a child is out of the way then.
    fn look(&self, site: &Site, argument: usize, said: isize) -> Result<()> {
        self.op().check(site, argument, said)?;
        while self.op() == Op::Fork && self.board.child(self.which).load(SeqCst) == 0 {
            proc::sched_yield();
        }
        Ok(())
    }

    /// A child that fork made: it goes to the CPU of the conductor, says so, and waits for its end.
    fn step_aside(&self) -> ! {
        if cpus::bind(0, &[ASIDE]).is_ok() {
            let pid = proc::getpid() as u32;
            self.board.child(self.which).store(pid, SeqCst);
        }
        loop {
            let _ = call(libc::SYS_ppoll, [0; 6]);
        }
    }

    /// Ends the child that fork made, if it did.
    pub fn end_child(&self) {
        let pid = self.board.child(self.which).swap(0, SeqCst) as i32;
        drop(Holder((pid > 0).then_some(pid)));
    }

    /// Begins a measurement and ends; the conductor, which waits for that, ends the measurement.
    fn leave(&self, name: &str) -> ! {
        let thread = self.is_thread();
        let word = self.board.alive(self.which).as_ptr() as usize;
        if thread {
            // The kernel stores 0 there when the thread is gone, and wakes the conductor.
            let _ = call(libc::SYS_set_tid_address, [word, 0, 0, 0, 0, 0]);
        }
        settle();
        self.begin_and_leave(thread, name)
    }

    #[inline(never)]
    fn begin_and_leave(&self, thread: bool, name: &str) -> ! {
        self.marks.begin(name);
        let nr = match thread {
            true => libc::SYS_exit,
            false => libc::SYS_exit_group,
        };
        loop {
            let _ = call(nr, [0; 6]);
        }
    }
}

/// Touches the stack below the caller, as far as it will be used between the marks: after a fork,
/// each page of it takes a fault once.
#[inline(never)]
fn settle() {
    let mut room = [0u8; 4 * PAGE];
    for byte in room.iter_mut().step_by(PAGE / 4) {
        *byte = 1;
        std::hint::black_box(&mut *byte);
    }
    std::hint::black_box(&mut room);
}
