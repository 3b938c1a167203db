//! epoll(7): what is reported when, and what cannot be watched.
use userland::harness::{Outcome, Stop, in_child};
use userland::sys::proc::Status;
use userland::sys::{Errno, Result, call, file, sig, time};
use userland::{check, check_eq, check_err};

userland::tests![
    epoll_level_and_edge,
    epoll_once,
    epoll_changes_and_removes,
    epoll_refuses,
    epoll_sets_in_sets,
    epoll_files_that_are_closed,
    epoll_many_files,
    epoll_times_out,
    epoll_interrupted,
    epoll_woken_by_a_thread,
    epoll_unreadable_answer,
    epoll_exclusive,
    epoll_across_fork,
    epoll_counters_and_timers,
];

const IN: u32 = libc::EPOLLIN as u32;
const OUT: u32 = libc::EPOLLOUT as u32;
const HUP: u32 = libc::EPOLLHUP as u32;
const ERR: u32 = libc::EPOLLERR as u32;
const ET: u32 = libc::EPOLLET as u32;
const ONESHOT: u32 = libc::EPOLLONESHOT as u32;
const NOTHING: libc::epoll_event = libc::epoll_event { events: 0, u64: 0 };

pub fn create() -> Result<i32> {
    Ok(call(
        libc::SYS_epoll_create1,
        [libc::EPOLL_CLOEXEC as usize, 0, 0, 0, 0, 0],
    )? as i32)
}

fn control(set: i32, operation: i32, fd: i32, events: u32, data: u64) -> Result<usize> {
    let event = libc::epoll_event { events, u64: data };
    let at = (&raw const event) as usize;
    call(
        libc::SYS_epoll_ctl,
        [set as usize, operation as usize, fd as usize, at, 0, 0],
    )
}

pub fn add(set: i32, fd: i32, events: u32) -> Result<usize> {
    control(set, libc::EPOLL_CTL_ADD, fd, events, fd as u64)
}

fn change(set: i32, fd: i32, events: u32) -> Result<usize> {
    control(set, libc::EPOLL_CTL_MOD, fd, events, fd as u64)
}

fn remove(set: i32, fd: i32) -> Result<usize> {
    call(
        libc::SYS_epoll_ctl,
        [
            set as usize,
            libc::EPOLL_CTL_DEL as usize,
            fd as usize,
            0,
            0,
            0,
        ],
    )
}

/// What is ready within `ms`, at most `most`: events and data.
fn wait_for(set: i32, most: usize, ms: i32) -> Result<Vec<(u32, u64)>> {
    let mut events = vec![NOTHING; most.clamp(1, 4096)];
    let at = events.as_mut_ptr() as usize;
    let n = call(
        libc::SYS_epoll_pwait,
        [set as usize, at, most, ms as usize, 0, 8],
    )?;
    Ok(events[..n].iter().map(|e| (e.events, e.u64)).collect())
}

/// What is ready now: events and data.
fn now(set: i32) -> Result<Vec<(u32, u64)>> {
    wait_for(set, 8, 0)
}

fn epoll_level_and_edge() -> Outcome {
    let (set, (hear, tell)) = (create()?, file::pipe(0)?);
    let (edge, (hear2, tell2)) = (create()?, file::pipe(0)?);
    add(set, hear, IN)?;
    add(edge, hear2, IN | ET)?;
    check_eq!((now(set)?, now(edge)?), (vec![], vec![]));
    for fd in [tell, tell2] {
        file::write_all(fd, b"two")?;
    }
    let (level_ready, edge_ready) = (vec![(IN, hear as u64)], vec![(IN, hear2 as u64)]);
    check_eq!(
        (now(set)?, now(edge)?),
        (level_ready.clone(), edge_ready.clone())
    );
    check_eq!((now(set)?, now(edge)?), (level_ready.clone(), vec![]));
    // Reading a part is no edge, more bytes are one.
    for fd in [hear, hear2] {
        file::read(fd, &mut [0; 2])?;
    }
    check_eq!((now(set)?, now(edge)?), (level_ready, vec![]));
    file::write_all(tell2, b"more")?;
    check_eq!(now(edge)?, edge_ready);
    file::read(hear, &mut [0; 9])?;
    check_eq!(now(set)?, vec![]);
    // The end is reported without being asked for.
    change(set, hear, 0)?;
    file::close(tell)?;
    check_eq!(now(set)?, vec![(HUP, hear as u64)]);
    let (_, tell3) = file::pipe(0)?;
    add(set, tell3, OUT)?;
    check!(
        now(set)?.contains(&(OUT, tell3 as u64)),
        "an empty pipe has no room"
    );
    Ok(())
}

fn epoll_once() -> Outcome {
    let (set, (hear, tell)) = (create()?, file::pipe(0)?);
    add(set, hear, IN | ONESHOT)?;
    file::write_all(tell, b"x")?;
    check_eq!(now(set)?, vec![(IN, hear as u64)]);
    file::write_all(tell, b"x")?;
    check_eq!(now(set)?, vec![]);
    change(set, hear, IN | ONESHOT)?;
    check_eq!(now(set)?, vec![(IN, hear as u64)]);
    // Not even an end is reported before it is changed.
    file::close(tell)?;
    check_eq!(now(set)?, vec![]);
    Ok(())
}

fn epoll_changes_and_removes() -> Outcome {
    let (set, (hear, tell)) = (create()?, file::pipe(0)?);
    file::write_all(tell, b"x")?;
    control(set, libc::EPOLL_CTL_ADD, hear, IN, 1 << 40 | 7)?;
    check_eq!(now(set)?, vec![(IN, 1 << 40 | 7)]);
    check_err!(add(set, hear, IN), EEXIST);
    // Under another number it is another one.
    let again = file::dup(hear)?;
    add(set, again, IN)?;
    check_eq!(now(set)?.len(), 2);
    remove(set, hear)?;
    check_eq!(now(set)?, vec![(IN, again as u64)]);
    check_err!(remove(set, hear), ENOENT);
    check_err!(change(set, hear, IN), ENOENT);
    change(set, again, OUT)?;
    check_eq!(now(set)?, vec![]);
    Ok(())
}

fn epoll_refuses() -> Outcome {
    let (set, (hear, _tell)) = (create()?, file::pipe(0)?);
    check_err!(call(libc::SYS_epoll_create1, [1, 0, 0, 0, 0, 0]), EINVAL);
    check_err!(add(set, set, IN), EINVAL);
    check_err!(add(hear, set, IN), EINVAL);
    check_err!(add(set, 1000, IN), EBADF);
    check_err!(add(1000, hear, IN), EBADF);
    check_err!(control(set, 9, hear, IN, 0), EINVAL);
    std::fs::write("regular", "")?;
    for path in ["regular", "/", "/dev/null"] {
        let fd = file::open(path, libc::O_RDONLY, 0)?;
        check_err!(add(set, fd, IN), EPERM);
        check_err!(remove(set, fd), EPERM);
    }
    let add = libc::EPOLL_CTL_ADD as usize;
    check_err!(
        call(
            libc::SYS_epoll_ctl,
            [set as usize, add, hear as usize, 8, 0, 0]
        ),
        EFAULT
    );
    check_err!(wait_for(set, 0, 0), EINVAL);
    check_err!(wait_for(set, usize::MAX, 0), EINVAL);
    check_err!(wait_for(hear, 1, 0), EINVAL);
    check_err!(wait_for(1000, 1, 0), EBADF);
    check_err!(file::read(set, &mut [0; 8]), EINVAL);
    Ok(())
}

fn epoll_sets_in_sets() -> Outcome {
    let (hear, tell) = file::pipe(0)?;
    let sets = (0..6).map(|_| create()).collect::<Result<Vec<i32>>>()?;
    add(sets[0], hear, IN)?;
    for pair in sets[..5].windows(2) {
        add(pair[1], pair[0], IN)?;
    }
    check_err!(add(sets[5], sets[4], IN), ELOOP);
    check_err!(add(sets[0], sets[4], IN), ELOOP);
    check_err!(add(sets[0], sets[1], IN), ELOOP);
    check_eq!(now(sets[4])?, vec![]);
    check_eq!(file::poll(sets[4], libc::POLLIN, 0)?, 0);
    file::write_all(tell, b"x")?;
    check_eq!(file::poll(sets[4], libc::POLLIN, 0)?, libc::POLLIN);
    check_eq!(now(sets[4])?, vec![(IN, sets[3] as u64)]);
    file::read(hear, &mut [0])?;
    check_eq!(now(sets[4])?, vec![]);
    // From above, too.
    let below = (0..6).map(|_| create()).collect::<Result<Vec<i32>>>()?;
    for pair in below[..5].windows(2) {
        add(pair[0], pair[1], IN)?;
    }
    check_err!(add(below[4], below[5], IN), ELOOP);
    // A set that is taken out leaves room, and no circle behind.
    remove(below[0], below[1])?;
    add(below[4], below[5], IN)?;
    add(below[1], below[0], IN)?;
    Ok(())
}

fn epoll_files_that_are_closed() -> Outcome {
    let (set, (hear, tell)) = (create()?, file::pipe(0)?);
    let again = file::dup(hear)?;
    add(set, hear, IN)?;
    file::write_all(tell, b"x")?;
    // The open file is still there: only its last descriptor ends the watching.
    file::close(hear)?;
    check_eq!(now(set)?, vec![(IN, hear as u64)]);
    file::close(again)?;
    check_eq!(now(set)?, vec![]);
    check_err!(remove(set, hear), EBADF);
    // The number is free for another file; very often.
    for _ in 0..1000 {
        let (hear, tell) = file::pipe(0)?;
        add(set, hear, IN)?;
        file::write_all(tell, b"x")?;
        check_eq!(now(set)?, vec![(IN, hear as u64)]);
        file::close(hear)?;
        file::close(tell)?;
    }
    check_eq!(now(set)?, vec![]);
    file::close(set)?;
    Ok(())
}

fn epoll_many_files() -> Outcome {
    let set = create()?;
    let pipes = (0..50).map(|_| file::pipe(0)).collect::<Result<Vec<_>>>()?;
    for (hear, _) in &pipes {
        add(set, *hear, IN)?;
    }
    for (_, tell) in pipes.iter().step_by(2) {
        file::write_all(*tell, b"x")?;
    }
    // Files that stay ready take turns: each is seen before one is seen again.
    let mut seen = Vec::new();
    for _ in 0..5 {
        let ready = wait_for(set, 5, 0)?;
        check_eq!(ready.len(), 5);
        seen.extend(ready.iter().map(|(_, data)| *data));
    }
    seen.sort_unstable();
    let mut wanted: Vec<u64> = pipes
        .iter()
        .step_by(2)
        .map(|(hear, _)| *hear as u64)
        .collect();
    wanted.sort_unstable();
    check_eq!(seen, wanted);
    for (_, tell) in &pipes {
        file::close(*tell)?;
    }
    let ready = wait_for(set, 100, 0)?;
    check_eq!(ready.len(), 50);
    check!(
        ready.iter().all(|(events, _)| events & (HUP | ERR) == HUP),
        "{ready:?}"
    );
    Ok(())
}

fn epoll_times_out() -> Outcome {
    let (set, (hear, _tell)) = (create()?, file::pipe(0)?);
    add(set, hear, IN)?;
    let start = time::now();
    check_eq!(wait_for(set, 1, 20)?, vec![]);
    check!(time::now() - start >= 20_000_000, "too early");
    let (short, wrong) = ([0i64, 5_000_000], [0i64, 1_000_000_000]);
    let mut event = NOTHING;
    let mut wait = |time: &[i64; 2]| {
        let (at, time) = ((&raw mut event) as usize, time.as_ptr() as usize);
        call(libc::SYS_epoll_pwait2, [set as usize, at, 1, time, 0, 8])
    };
    let start = time::now();
    check_eq!(wait(&short)?, 0);
    check!(time::now() - start >= 5_000_000, "too early");
    check_err!(wait(&wrong), EINVAL);
    Ok(())
}

fn epoll_interrupted() -> Outcome {
    let status = in_child(|| {
        let set = create()?;
        sig::count(libc::SIGALRM, libc::SA_RESTART, &[])?;
        time::itimer(20_000, 0)?;
        // Whatever SA_RESTART says.
        check_err!(wait_for(set, 1, -1), EINTR);
        // Blocked but for the call.
        sig::mask(libc::SIG_BLOCK, &[libc::SIGALRM])?;
        time::itimer(20_000, 0)?;
        let (none, mut event) = (0u64, NOTHING);
        let (mask, at) = ((&raw const none) as usize, (&raw mut event) as usize);
        let wait = call(
            libc::SYS_epoll_pwait,
            [set as usize, at, 1, usize::MAX, mask, 8],
        );
        check_eq!(wait, Err(Errno(libc::EINTR)));
        let wait = call(libc::SYS_epoll_pwait, [set as usize, at, 1, 0, mask, 4]);
        check_eq!(wait, Err(Errno(libc::EINVAL)));
        Ok(0)
    })?;
    check_eq!(status, Status::Exited(0));
    Ok(())
}

fn epoll_woken_by_a_thread() -> Outcome {
    let (set, outer, (hear, tell)) = (create()?, create()?, file::pipe(0)?);
    add(outer, set, IN)?;
    // A file that is added while a thread waits wakes it, through the outer set, too.
    let waits = std::thread::spawn(move || wait_for(outer, 1, -1));
    file::write_all(tell, b"x")?;
    time::sleep(5_000_000).map_err(|(error, _)| error)?;
    add(set, hear, IN)?;
    let ready = waits
        .join()
        .map_err(|_| Stop::Fail("the thread died".into()))??;
    check_eq!(ready, vec![(IN, set as u64)]);
    file::read(hear, &mut [0])?;
    let waits = std::thread::spawn(move || wait_for(set, 1, -1));
    time::sleep(5_000_000).map_err(|(error, _)| error)?;
    file::write_all(tell, b"x")?;
    let ready = waits
        .join()
        .map_err(|_| Stop::Fail("the thread died".into()))??;
    check_eq!(ready, vec![(IN, hear as u64)]);
    Ok(())
}

fn epoll_unreadable_answer() -> Outcome {
    let (set, (hear, tell)) = (create()?, file::pipe(0)?);
    add(set, hear, IN | ET | ONESHOT)?;
    file::write_all(tell, b"x")?;
    check_err!(
        call(libc::SYS_epoll_pwait, [set as usize, 8, 1, 0, 0, 8]),
        EFAULT
    );
    // It was not lost.
    check_eq!(now(set)?, vec![(IN, hear as u64)]);
    check_eq!(now(set)?, vec![]);
    Ok(())
}

fn epoll_exclusive() -> Outcome {
    let exclusive = libc::EPOLLEXCLUSIVE as u32;
    let (sets, (hear, tell)) = ([create()?, create()?], file::pipe(0)?);
    for set in sets {
        add(set, hear, IN | exclusive)?;
    }
    check_err!(change(sets[0], hear, IN), EINVAL);
    check_err!(change(sets[0], hear, IN | exclusive), EINVAL);
    check_err!(add(sets[0], tell, OUT | ONESHOT | exclusive), EINVAL);
    check_err!(add(sets[0], sets[1], IN | exclusive), EINVAL);
    file::write_all(tell, b"x")?;
    // At least one of them is told.
    let told = [now(sets[0])?, now(sets[1])?];
    check!(
        told.contains(&vec![(IN, hear as u64)]),
        "{told:?} of {hear}"
    );
    remove(sets[0], hear)?;
    remove(sets[1], hear)?;
    check_eq!(now(sets[0])?, vec![]);
    Ok(())
}

fn epoll_across_fork() -> Outcome {
    let (set, (hear, tell)) = (create()?, file::pipe(0)?);
    // The set is shared: what a child adds is there, and stays as long as its open file does.
    let status = in_child(|| {
        add(set, hear, IN)?;
        let own = file::pipe(0)?;
        add(set, own.0, IN)?;
        file::write_all(own.1, b"x")?;
        check_eq!(now(set)?, vec![(IN, own.0 as u64)]);
        Ok(0)
    })?;
    check_eq!(status, Status::Exited(0));
    check_eq!(now(set)?, vec![]);
    let status = in_child(|| {
        file::close(hear)?;
        file::write_all(tell, b"x")?;
        Ok(0)
    })?;
    check_eq!(status, Status::Exited(0));
    check_eq!(now(set)?, vec![(IN, hear as u64)]);
    Ok(())
}

fn epoll_counters_and_timers() -> Outcome {
    let (set, flags) = (create()?, libc::O_NONBLOCK as usize);
    let counter = call(libc::SYS_eventfd2, [0, flags, 0, 0, 0, 0])? as i32;
    let clock = libc::CLOCK_MONOTONIC as usize;
    let timer = call(libc::SYS_timerfd_create, [clock, flags, 0, 0, 0, 0])? as i32;
    add(set, counter, IN | ET)?;
    add(set, timer, IN | ET)?;
    check_eq!(now(set)?, vec![]);
    for _ in 0..2 {
        file::write_all(counter, &1u64.to_ne_bytes())?;
        check_eq!(now(set)?, vec![(IN, counter as u64)]);
        check_eq!(now(set)?, vec![]);
    }
    let once = [[0u64, 0], [0, 5_000_000]];
    let at = once.as_ptr() as usize;
    call(libc::SYS_timerfd_settime, [timer as usize, 0, at, 0, 0, 0])?;
    check_eq!(wait_for(set, 8, -1)?, vec![(IN, timer as u64)]);
    check_eq!(now(set)?, vec![]);
    file::read(timer, &mut [0; 8])?;
    check_eq!(file::poll(set, libc::POLLIN, 0)?, 0);
    Ok(())
}
