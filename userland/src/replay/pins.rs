//! Pages that a pipe holds (vmsplice(2)): while memory is one process's own, what it writes is seen
//! through the pipe; as soon as it has been shared by a fork, the pipe keeps what was there.
use super::area::{Area, PAGES, Size};
use super::family::child;
use crate::check_eq;
use crate::harness::{Outcome, Stop, need, skip};
use crate::switch::share_an_id;
use crate::sys::file;
use crate::sys::mem::{PAGE, munmap};

/// Pages that the pipe gets: ends, middles, neighbours.
const PINNED: [usize; 6] = [0, 1, 7, 33, 512, PAGES - 1];

/// A pipe that holds the pages.
struct Pipe {
    hear: i32,
    tell: i32,
}

impl Pipe {
    fn new() -> Result<Pipe, Stop> {
        let (hear, tell) = file::pipe(0)?;
        Ok(Pipe { hear, tell })
    }

    fn take(&self, area: &Area) -> Outcome {
        for page in PINNED {
            let taken = file::vmsplice(self.tell, area.page(page), PAGE, 0);
            check_eq!(need(taken, "vmsplice")?, PAGE);
        }
        Ok(())
    }

    /// The pages come out with this version.
    fn delivers(&self, version: u64) -> Outcome {
        for page in PINNED {
            let mut got = vec![0; PAGE];
            let mut n = 0;
            while n < PAGE {
                n += file::read(self.hear, &mut got[n..])?;
            }
            crate::check!(
                got == Area::bytes(page, version),
                "page {page} is not version {version} in the pipe"
            );
        }
        Ok(())
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        let _ = (file::close(self.hear), file::close(self.tell));
    }
}

/// No fork: the pipe has the pages themselves.
pub fn pin_alone(size: Size) -> Outcome {
    if size == Size::ByPages && share_an_id() {
        return skip(
            "a page that was protected is copied by its next write, where no process has an id",
        );
    }
    let (area, pipe) = (Area::new(size)?, Pipe::new()?);
    pipe.take(&area)?;
    area.write_all(2);
    pipe.delivers(2)?;
    area.holds(2)?;
    // What was unmapped meanwhile is still there.
    pipe.take(&area)?;
    munmap(area.at, super::area::LEN)?;
    pipe.delivers(2)
}

/// A child lives, and the parent writes.
pub fn pin_parent_writes(size: Size) -> Outcome {
    let (area, pipe) = (Area::new(size)?, Pipe::new()?);
    pipe.take(&area)?;
    let kid = child(|_| area.holds(1))?;
    area.write_all(2);
    pipe.delivers(1)?;
    kid.end()?;
    area.holds(2)
}

/// The child writes, then the parent.
pub fn pin_child_writes(size: Size) -> Outcome {
    let (area, pipe) = (Area::new(size)?, Pipe::new()?);
    pipe.take(&area)?;
    let kid = child(|turn| {
        area.write_all(2);
        turn.next()?;
        area.holds(2)
    })?;
    kid.step()?;
    area.holds(1)?;
    area.write_all(3);
    pipe.delivers(1)?;
    kid.end()?;
    area.holds(3)
}

/// The child is gone when the parent writes.
pub fn pin_child_gone(size: Size) -> Outcome {
    let (area, pipe) = (Area::new(size)?, Pipe::new()?);
    pipe.take(&area)?;
    child(|_| area.holds(1))?.end()?;
    area.write_all(2);
    pipe.delivers(1)?;
    area.holds(2)
}

/// The child gives its pages to a pipe and unmaps them: the child must not read what the parent
/// writes then.
pub fn pin_by_child(size: Size) -> Outcome {
    let (area, pipe) = (Area::new(size)?, Pipe::new()?);
    let kid = child(|turn| {
        pipe.take(&area)?;
        munmap(area.at, super::area::LEN)?;
        turn.next()?;
        pipe.delivers(1)
    })?;
    kid.step()?;
    area.write_all(2);
    area.holds(2)?;
    kid.end()?;
    area.holds(2)
}
