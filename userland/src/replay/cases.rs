//! Cases by the order of writers and of exits.
use super::area::{Area, PAGES, PARTS, Size, inside};
use super::family::{Turn, child};
use crate::check_eq;
use crate::harness::Outcome;
use crate::sys::mem::PAGE;
use crate::sys::{call, file, proc};

/// The parent writes while its child lives; then the child.
pub fn parent_first(size: Size) -> Outcome {
    let area = Area::new(size)?;
    let kid = child(|turn| {
        area.holds(1)?;
        area.write_all(3);
        area.holds(3)?;
        turn.next()?;
        area.holds(3)
    })?;
    area.write_all(2);
    area.holds(2)?;
    kid.step()?;
    area.holds(2)?;
    kid.end()?;
    area.holds(2)
}

/// The child writes while its parent lives; then the parent.
pub fn child_first(size: Size) -> Outcome {
    let area = Area::new(size)?;
    let kid = child(|turn| {
        area.write_all(2);
        turn.next()?;
        area.holds(2)
    })?;
    kid.step()?;
    area.holds(1)?;
    area.write_all(3);
    area.holds(3)?;
    kid.end()?;
    area.holds(3)
}

/// The child reads and ends; then the parent writes.
pub fn child_exits(size: Size) -> Outcome {
    let area = Area::new(size)?;
    child(|_| area.holds(1))?.end()?;
    area.holds(1)?;
    area.write_all(2);
    area.holds(2)
}

/// The child writes every other page, or block, and ends; then the parent writes the rest.
pub fn child_exits_half(size: Size) -> Outcome {
    let area = Area::new(size)?;
    for (turn, every) in [(0, 2), (1, 16), (2, 3)] {
        let before = 10 * turn + 1;
        area.write_all(before);
        let mine = move |page: usize| (page / every).is_multiple_of(2);
        child(|_| {
            (0..PAGES)
                .filter(|page| mine(*page))
                .for_each(|page| area.write(page, before + 1));
            area.check(|page| Some(before + mine(page) as u64))
        })?
        .end()?;
        area.holds(before)?;
        (0..PAGES)
            .filter(|page| !mine(*page))
            .for_each(|page| area.write(page, before + 2));
        area.check(|page| Some(if mine(page) { before } else { before + 2 }))?;
    }
    Ok(())
}

/// Of a parent, its child and its grandchild, which all share memory, the parent is the last one.
pub fn last_parent(size: Size) -> Outcome {
    generations(size, 0)
}

/// The child is the last one.
pub fn last_child(size: Size) -> Outcome {
    generations(size, 1)
}

/// The grandchild is the last one.
pub fn last_grandchild(size: Size) -> Outcome {
    generations(size, 2)
}

/// A pipe whose reader sees its end when the last process that has its writing end is gone.
struct Alive {
    hear: i32,
    hold: i32,
}

impl Alive {
    fn new() -> Result<Alive, crate::harness::Stop> {
        let (hear, hold) = file::pipe(0)?;
        Ok(Alive { hear, hold })
    }

    fn ended(&self) -> Outcome {
        check_eq!(file::read(self.hear, &mut [0])?, 0);
        Ok(())
    }
}

/// Three generations; all but number `last` write some and end, in order, then that one writes all
/// of it. The test itself is outside of the family and gives the turns.
fn generations(size: Size, last: usize) -> Outcome {
    let (go, alive) = (turns()?, [Alive::new()?, Alive::new()?, Alive::new()?]);
    let (hear, tell) = file::pipe(0)?;
    let first = match proc::fork()? {
        proc::Fork::Child => {
            let outcome = generation(size, 0, last, &go, &alive, tell);
            if let Err(stop) = &outcome {
                let _ = file::write_all(2, format!("# in a generation: {stop:?}\n").as_bytes());
            }
            proc::exit_now(0)
        }
        proc::Fork::Parent(pid) => pid,
    };
    for one in &alive {
        file::close(one.hold)?;
    }
    file::close(tell)?;
    // All three are there.
    check_eq!(words(hear, 3)?, "rrr");
    for who in (0..3).filter(|who| *who != last).chain([last]) {
        file::write(go[who].1, b".")?;
        check_eq!(words(hear, 1)?, "w");
        alive[who].ended()?;
    }
    proc::wait_for(first)?;
    Ok(())
}

type Pipe = (i32, i32);

fn turns() -> Result<[Pipe; 3], crate::harness::Stop> {
    Ok([file::pipe(0)?, file::pipe(0)?, file::pipe(0)?])
}

/// Reads `n` characters from the generations.
fn words(hear: i32, n: usize) -> Result<String, crate::harness::Stop> {
    let mut said = String::new();
    while said.len() < n {
        let mut one = [0];
        if file::read(hear, &mut one)? == 0 {
            break;
        }
        said.push(one[0] as char);
    }
    Ok(said)
}

/// One generation; it has the memory of the one before.
fn generation(
    size: Size,
    me: usize,
    last: usize,
    go: &[Pipe; 3],
    alive: &[Alive; 3],
    tell: i32,
) -> Outcome {
    let area = Area::new(size)?;
    descend(&area, me, last, go, alive, tell)
}

fn descend(
    area: &Area,
    me: usize,
    last: usize,
    go: &[Pipe; 3],
    alive: &[Alive; 3],
    tell: i32,
) -> Outcome {
    if me < 2
        && let proc::Fork::Child = proc::fork()?
    {
        return descend(area, me + 1, last, go, alive, tell);
    }
    // The others' ends would keep them from being seen.
    for other in (0..3).filter(|other| *other != me) {
        file::close(alive[other].hold)?;
    }
    file::write(tell, b"r")?;
    file::read(go[me].0, &mut [0])?;
    area.holds(1)?;
    let version = 2 + me as u64;
    if me == last {
        area.write_all(version);
        area.holds(version)?;
    } else {
        let mine = |page: usize| page % 3 == me;
        (0..PAGES)
            .filter(|page| mine(*page))
            .for_each(|page| area.write(page, version));
        area.check(|page| Some(if mine(page) { version } else { 1 }))?;
    }
    file::write(tell, b"w")?;
    Ok(())
}

/// The kernel writes, by read(2), into memory that a child shares: the parent's, then the child's.
pub fn read_after_fork(size: Size) -> Outcome {
    let area = Area::new(size)?;
    let (hear, tell) = file::pipe(0)?;
    let fetch = |version: u64| -> Outcome {
        for (first, pages) in PARTS {
            for page in first..first + pages {
                file::write_all(tell, &Area::bytes(page, version))?;
                let n = call(
                    libc::SYS_read,
                    [hear as usize, area.page(page), PAGE, 0, 0, 0],
                )?;
                check_eq!(n, PAGE);
            }
        }
        area.check(|page| Some(if inside(page) { version } else { 1 }))
    };
    let kid = child(|turn| {
        area.holds(1)?;
        fetch(3)?;
        turn.next()?;
        area.check(|page| Some(if inside(page) { 3 } else { 1 }))
    })?;
    fetch(2)?;
    kid.step()?;
    area.check(|page| Some(if inside(page) { 2 } else { 1 }))?;
    kid.end()
}

/// Children again and again, some alive together, while the parent keeps writing: each has the
/// memory as it was then.
pub fn fork_loop(size: Size) -> Outcome {
    const ROUNDS: usize = 12;
    let area = Area::new(size)?;
    let version = |page: usize, round: usize| match page % ROUNDS < round {
        true => 2 + (page % ROUNDS) as u64,
        false => 1,
    };
    let mut alive = std::collections::VecDeque::new();
    for round in 0..ROUNDS {
        let snapshot = move |page: usize| Some(version(page, round));
        let act = |turn: &Turn| {
            area.check(snapshot)?;
            area.write(round * 37, 100);
            turn.next()?;
            area.check(|page| {
                if page == round * 37 {
                    Some(100)
                } else {
                    snapshot(page)
                }
            })
        };
        alive.push_back(child(act)?);
        (0..PAGES)
            .filter(|page| page % ROUNDS == round)
            .for_each(|page| area.write(page, 2 + round as u64));
        alive[alive.len() - 1].step()?;
        if alive.len() == 3
            && let Some(oldest) = alive.pop_front()
        {
            oldest.end()?;
        }
        area.check(|page| Some(version(page, round + 1)))?;
    }
    while let Some(one) = alive.pop_front() {
        one.end()?;
    }
    area.check(|page| Some(version(page, ROUNDS)))
}
