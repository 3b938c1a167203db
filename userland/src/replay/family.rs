//! Processes that act in turn: a child does each step on a message, and answers when it is done.
use crate::harness::{Outcome, Stop};
use crate::sys::{file, proc, proc::Status};
use crate::{check, check_eq};

/// The parent's end of a child.
pub struct Child {
    pid: i32,
    tell: i32,
    hear: i32,
}

/// The child's end.
pub struct Turn {
    hear: i32,
    tell: i32,
}

impl Turn {
    /// Reports the step before as done, and waits for the next turn.
    pub fn next(&self) -> Outcome {
        file::write(self.tell, b".")?;
        self.wait()
    }

    fn wait(&self) -> Outcome {
        check_eq!(file::read(self.hear, &mut [0])?, 1);
        Ok(())
    }
}

/// Forks a child that does `act` from its first turn on; errors there are printed on the console
/// and end it with a status.
pub fn child(act: impl FnOnce(&Turn) -> Outcome) -> Result<Child, Stop> {
    let (go_read, go_write) = file::pipe(0)?;
    let (done_read, done_write) = file::pipe(0)?;
    match proc::fork()? {
        proc::Fork::Child => {
            // Else these pipes would never end.
            let _ = (file::close(go_write), file::close(done_read));
            let turn = Turn {
                hear: go_read,
                tell: done_write,
            };
            let outcome = turn.wait().and_then(|()| act(&turn));
            if let Err(stop) = &outcome {
                let _ = file::write_all(2, format!("# in a child: {stop:?}\n").as_bytes());
            }
            proc::exit_now(outcome.is_err() as i32)
        }
        proc::Fork::Parent(pid) => {
            let _ = (file::close(go_read), file::close(done_write));
            Ok(Child {
                pid,
                tell: go_write,
                hear: done_read,
            })
        }
    }
}

impl Child {
    /// Lets it do its next step, and waits until that is done.
    pub fn step(&self) -> Outcome {
        file::write(self.tell, b".")?;
        check!(
            file::read(self.hear, &mut [0])? == 1,
            "the child ended before its step did"
        );
        Ok(())
    }

    /// Lets it do its last step: it must end well.
    pub fn end(self) -> Outcome {
        file::write(self.tell, b".")?;
        let status = proc::wait_for(self.pid)?;
        let _ = (file::close(self.tell), file::close(self.hear));
        check_eq!(status, Status::Exited(0));
        Ok(())
    }
}
