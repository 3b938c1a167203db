//! Four processes map one region, and all but one of them let go of it: what the one that is left
//! pays for a write to each page. No other process has the pages any more, so nothing needs to be
//! copied.
use crate::meter::{Meter, Sample};
use crate::region::Region;
use userland::measuring::{Child, Line};
use userland::sys::Result;

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
        let survives = number == left;
        let child = Child::start(|line| live(meter, &region, line, survives))?;
        children.push((number, child));
    }
    let mut survivor = None;
    for (number, child) in children {
        if number == left {
            survivor = Some(child);
            continue;
        }
        child.line.say()?;
        child.end()?;
    }
    let Some(child) = survivor else {
        return write(meter, &region);
    };
    drop(region);
    child.line.say()?;
    let sample = meter.hear(child.line.from, PAGES)?;
    child.end()?;
    Ok(sample)
}

/// Writes to each page, in a process that has settled.
fn write(meter: &mut Meter, region: &Region) -> Result<Sample> {
    meter.settle()?;
    let sample = meter.timed(PAGES, || region.dot())?;
    region.check_dotted()?;
    Ok(sample)
}

/// The life of a child, which begins with its turn.
fn live(meter: &mut Meter, region: &Region, line: Line, survives: bool) -> Result<()> {
    line.hear()?;
    region.check_touched()?;
    if survives {
        write(meter, region)?.tell(line.to)?;
    }
    Ok(())
}
