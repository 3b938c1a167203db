//! Four processes map one region, and all but one of them let go of it: what the one that is left
//! pays for a write to each page. No other process has the pages any more, so nothing needs to be
//! copied.
use crate::meter::{Meter, Sample};
use crate::ops::clone;
use crate::region::{Region, wrong};
use userland::sys::proc::{self, Status};
use userland::sys::{Result, file};

/// 4 MiB.
const PAGES: usize = 1024;
/// Beside the parent.
const CHILDREN: usize = 3;

/// One sample for each of them as the one that is left, the parent first.
pub fn run(meter: &mut Meter) -> Result<Vec<Sample>> {
    (0..=CHILDREN).map(|left| among(meter, left)).collect()
}

/// `left`: 0 for the parent, else the child of that number. A parent that is not left unmaps; the
/// children end.
fn among(meter: &mut Meter, left: usize) -> Result<Sample> {
    meter.cell.variant = Some(left + 1);
    let region = Region::map(PAGES)?;
    region.touch()?;
    let mut children = Vec::new();
    for number in 1..=CHILDREN {
        children.push(Child::start(meter, &region, number == left)?);
    }
    let (survivor, others): (Vec<_>, Vec<_>) = children.into_iter().partition(|c| c.survives);
    others.into_iter().try_for_each(|child| child.end())?;
    match survivor.into_iter().next() {
        None => write(meter, &region),
        Some(child) => {
            drop(region);
            child.write(meter)
        }
    }
}

/// Writes to each page, in a process that has settled.
fn write(meter: &mut Meter, region: &Region) -> Result<Sample> {
    meter.settle()?;
    let sample = meter.timed(PAGES, || region.dot())?;
    region.check_dotted()?;
    Ok(sample)
}

struct Child {
    pid: i32,
    survives: bool,
    /// The pipes of its turns and its answers.
    go: (i32, i32),
    tell: (i32, i32),
}

impl Child {
    fn start(meter: &mut Meter, region: &Region, survives: bool) -> Result<Child> {
        let (go, tell) = (file::pipe(0)?, file::pipe(0)?);
        let pid = clone()?;
        let child = Child {
            pid,
            survives,
            go,
            tell,
        };
        if pid == 0 {
            let done = child.live(meter, region).is_ok();
            proc::exit_now(if done { 0 } else { 1 });
        }
        Ok(child)
    }

    /// The child's life.
    fn live(&self, meter: &mut Meter, region: &Region) -> Result<()> {
        file::read(self.go.0, &mut [0])?;
        region.check_touched()?;
        if self.survives {
            let sample = write(meter, region)?;
            sample.tell(self.tell.1)?;
        }
        Ok(())
    }

    fn end(self) -> Result<()> {
        file::write(self.go.1, &[0])?;
        match proc::wait_for(self.pid)? {
            Status::Exited(0) => Ok(()),
            other => Err(wrong(&format!("a child ended with {other:?}"))),
        }
    }

    /// Lets it write and hears what that cost: the time, and each of the counters.
    fn write(self, meter: &Meter) -> Result<Sample> {
        file::write(self.go.1, &[0])?;
        let sample = meter.hear(self.tell.0, PAGES)?;
        match proc::wait_for(self.pid)? {
            Status::Exited(0) => Ok(sample),
            other => Err(wrong(&format!("a child ended with {other:?}"))),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        for fd in [self.go.0, self.go.1, self.tell.0, self.tell.1] {
            // Closing a pipe cannot fail in a way that matters here.
            let _ = file::close(fd);
        }
    }
}
