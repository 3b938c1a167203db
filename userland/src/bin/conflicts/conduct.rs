//! One cell: its state, its two actors, and who tells them when.
use crate::actor::{ASIDE, Actor};
use crate::board::{Board, Order};
use crate::op::Op;
use crate::plan::{Cell, Place};
use crate::site::{self, Site};
use std::sync::atomic::Ordering::SeqCst;
use userland::marks::Marks;
use userland::sys::proc::{self, Status, futex};
use userland::sys::{Errno, Result, cpus};

/// How often an operation is rehearsed: what a CPU keeps for itself is filled, and was used.
const REHEARSALS: usize = 2;

/// Plays a cell, in a process that has done nothing else and will not.
pub fn play(cell: Cell, board: Board, marks: &Marks) -> Result<()> {
    cpus::bind(0, &[ASIDE])?;
    // The page of marks comes with the first name that a process stores.
    marks.begin("conductor");
    marks.forget();
    match cell.place {
        Place::OtherSpace => in_two_spaces(cell, board, marks),
        _ => in_one_space(cell, board, marks),
    }
}

fn in_one_space(cell: Cell, board: Board, marks: &Marks) -> Result<()> {
    let sites = Site::two(cell.place)?;
    let actor = |which: usize| Actor {
        which,
        cell,
        site: sites[which],
        board,
        marks,
    };
    let actors = [actor(0), actor(1)];
    std::thread::scope(|scope| {
        for actor in &actors {
            board.alive(actor.which).store(1, SeqCst);
            scope.spawn(|| actor.obey());
        }
        let how = tell_threads(&actors);
        // Threads that end by the bare call are none that can be joined.
        proc::exit_now(how.map_or_else(|error| error.0, |()| 0))
    })
}

fn tell_threads(actors: &[Actor<'_>; 2]) -> Result<()> {
    let Actor {
        cell, board, marks, ..
    } = actors[0];
    let alone = || Ok(());
    rehearse(board, alone)?;
    let all = actors.map(|actor| (cell.ops[actor.which], actor.site));
    let held = match cell.place {
        // What the first leaves is what the second finds.
        Place::Page => site::prepare(&all[..1])?,
        _ => site::prepare(&all)?,
    };
    for actor in actors {
        match cell.ops[actor.which] {
            Op::Exit => {
                board.begin(actor.which, Order::Perform);
                wait_for_thread(board, actor.which)?;
                marks.end();
            }
            _ => board.order_and_wait(actor.which, Order::Perform, alone)?,
        }
    }
    actors.iter().for_each(Actor::end_child);
    drop(held);
    Ok(())
}

/// Waits until the kernel says that an actor is gone.
fn wait_for_thread(board: Board, which: usize) -> Result<()> {
    let word = board.alive(which);
    while word.load(SeqCst) != 0 {
        match futex(word, libc::FUTEX_WAIT, [1, 0, 0, 0]) {
            Err(error) if ![libc::EAGAIN, libc::EINTR].contains(&error.0) => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn in_two_spaces(cell: Cell, board: Board, marks: &Marks) -> Result<()> {
    let mut pids = [0; 2];
    for (which, pid) in pids.iter_mut().enumerate() {
        *pid = proc::child(|| {
            let status = in_own_space(which, cell, board, marks);
            proc::exit_now(status.map_or_else(|error| error.0, |()| 0))
        })?;
    }
    let alive = || {
        let ended = pids.map(|pid| proc::waitid(libc::P_PID, pid as u32, ENDED));
        match ended.into_iter().flatten().any(|one| one.pid != 0) {
            true => Err(Errno(libc::ECHILD)),
            false => Ok(()),
        }
    };
    rehearse(board, alive)?;
    for which in 0..2 {
        board.order_and_wait(which, Order::Prepare, alive)?;
    }
    for (which, pid) in pids.into_iter().enumerate() {
        match cell.ops[which] {
            Op::Exit => {
                board.begin(which, Order::Perform);
                ended_well(pid)?;
                marks.end();
            }
            _ => board.order_and_wait(which, Order::Perform, alive)?,
        }
    }
    for which in (0..2).filter(|which| cell.ops[*which] != Op::Exit) {
        board.begin(which, Order::End);
        ended_well(pids[which])?;
    }
    Ok(())
}

/// Whether a child has ended, without taking its status.
const ENDED: i32 = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;

fn ended_well(pid: i32) -> Result<()> {
    match proc::wait_for(pid)? {
        Status::Exited(0) => Ok(()),
        Status::Exited(number) => Err(Errno(number)),
        _ => Err(Errno(libc::EFAULT)),
    }
}

fn in_own_space(which: usize, cell: Cell, board: Board, marks: &Marks) -> Result<()> {
    marks.begin("actor");
    marks.forget();
    let actor = Actor {
        which,
        cell,
        site: Site::one()?,
        board,
        marks,
    };
    actor.obey();
    actor.end_child();
    Ok(())
}

/// Both rehearse, in turn.
fn rehearse(board: Board, watch: impl FnMut() -> Result<()> + Copy) -> Result<()> {
    for _ in 0..REHEARSALS {
        for which in 0..2 {
            board.order_and_wait(which, Order::Rehearse, watch)?;
        }
    }
    Ok(())
}
