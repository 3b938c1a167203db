//! The rights of a range that threads change while others access it: open, closed, or on the way
//! between. An access that begins and ends within one phase must do as that phase says.
use crate::page::wrong;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use userland::sys::fault::Probe;

/// Counts the changes: 0 open, 1 closing, 2 closed, 3 opening, 4 open again, and so on.
pub struct Phase(AtomicU64);

impl Phase {
    pub fn open() -> Phase {
        Phase(AtomicU64::new(0))
    }
    pub fn closed() -> Phase {
        Phase(AtomicU64::new(2))
    }
    pub fn is_open(&self) -> bool {
        self.now().is_multiple_of(4)
    }

    /// Runs `change`, which opens what is closed or closes what is open. Changes exclude each other
    /// by a lock of the caller's.
    pub fn change<T>(&self, change: impl FnOnce() -> T) -> T {
        self.0.fetch_add(1, SeqCst);
        let result = change();
        self.0.fetch_add(1, SeqCst);
        result
    }

    /// An access to `at` in this range: its value, `None` where it trapped. A trap in an open range
    /// and a success in a closed one end the program.
    pub fn access<T>(&self, at: usize, access: impl FnOnce() -> Probe<T>) -> Option<T> {
        let (before, found) = self.look(at, access);
        if found.is_some() && before == self.now() && before % 4 == 2 {
            wrong(at, "an access to a closed range succeeds");
        }
        found
    }

    /// An access to `at` that a closed range allows or not: only a trap in an open one ends the
    /// program.
    pub fn read<T>(&self, at: usize, access: impl FnOnce() -> Probe<T>) -> Option<T> {
        self.look(at, access).1
    }

    /// The phase before, and the value.
    fn look<T>(&self, at: usize, access: impl FnOnce() -> Probe<T>) -> (u64, Option<T>) {
        let before = self.now();
        let found = access();
        if let Err(trap) = &found
            && before == self.now()
            && before.is_multiple_of(4)
        {
            wrong(at, &format!("an access to an open range gives {trap:x?}"));
        }
        (before, found.ok())
    }

    fn now(&self) -> u64 {
        self.0.load(SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::Phase;
    use userland::sys::fault::{Probe, Trap};
    use userland::sys::file;
    use userland::sys::proc::{self, Fork, Status};

    const FAULT: Trap = Trap {
        signal: libc::SIGSEGV,
        code: 0,
        addr: 0,
    };

    /// How a process ends that accesses memory in this phase.
    fn end(phase: &Phase, access: impl FnOnce() -> Probe<()>) -> Status {
        match proc::fork().expect("a process") {
            Fork::Child => {
                // What it says would stand among the results of other tests.
                let _ = file::close(1);
                phase.access(0, access);
                proc::exit_now(0)
            }
            Fork::Parent(pid) => proc::wait_for(pid).expect("its end"),
        }
    }

    #[test]
    fn an_access_does_as_its_phase_says() {
        let (right, wrong) = (Status::Exited(0), Status::Exited(1));
        let (open, closed) = (Phase::open(), Phase::closed());
        assert_eq!(end(&open, || Ok(())), right);
        assert_eq!(end(&open, || Err(FAULT)), wrong);
        assert_eq!(end(&closed, || Ok(())), wrong);
        assert_eq!(end(&closed, || Err(FAULT)), right);
        closed.read(0, || Ok(()));
        // While the range changes both may be.
        assert_eq!(end(&open, || open.change(|| Err(FAULT))), right);
        assert_eq!(end(&closed, || closed.change(|| Ok(()))), right);
    }
}
