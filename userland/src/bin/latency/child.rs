//! Processes and threads beside the one that measures.
use crate::wrong;
use userland::sys::proc::{self, Fork, Status};
use userland::sys::{Result, file};

/// Forks a child that does something and ends.
fn forked(work: impl FnOnce() -> Result<()>) -> Result<i32> {
    match proc::fork()? {
        Fork::Parent(pid) => Ok(pid),
        Fork::Child => proc::exit_now(i32::from(work().is_err())),
    }
}

/// Waits for a child that must have done what it was to do.
pub fn wait(pid: i32) -> Result<()> {
    match proc::wait_for(pid)? {
        Status::Exited(0) => Ok(()),
        other => Err(wrong(&format!("a child ended with {other:?}"))),
    }
}

/// One end of a pair of pipes.
#[derive(Clone, Copy)]
pub struct Line {
    from: i32,
    to: i32,
}

impl Line {
    /// Both ends.
    pub fn pair() -> Result<(Line, Line)> {
        let (here, there) = (file::pipe(libc::O_CLOEXEC)?, file::pipe(libc::O_CLOEXEC)?);
        let ours = Line {
            from: here.0,
            to: there.1,
        };
        let theirs = Line {
            from: there.0,
            to: here.1,
        };
        Ok((ours, theirs))
    }

    /// Sends a byte and waits for one.
    pub fn round_trip(self) -> Result<()> {
        file::write_all(self.to, &[0])?;
        match file::read(self.from, &mut [0])? {
            1 => Ok(()),
            _ => Err(wrong("the other end of the pipes has gone")),
        }
    }

    /// Sends each byte back until there are no more.
    pub fn echo(self) -> Result<()> {
        while file::read(self.from, &mut [0])? == 1 {
            file::write_all(self.to, &[0])?;
        }
        Ok(())
    }

    /// Closes this end.
    pub fn close(self) -> Result<()> {
        file::close(self.from)?;
        file::close(self.to)
    }
}

/// A child at the other end of two pipes, which waits there with a copy of the memory.
pub struct Child {
    pid: i32,
    /// Our end.
    pub line: Line,
}

impl Child {
    /// Forks it, and waits until it has run and waits itself: it would do so in the middle of a
    /// sample.
    pub fn start() -> Result<Child> {
        let (line, theirs) = Line::pair()?;
        let pid = forked(|| {
            line.close()?;
            theirs.echo()
        })?;
        theirs.close()?;
        line.round_trip()?;
        Ok(Child { pid, line })
    }

    /// Lets it end, and waits until it has.
    pub fn end(self) -> Result<()> {
        self.line.close()?;
        wait(self.pid)
    }
}
