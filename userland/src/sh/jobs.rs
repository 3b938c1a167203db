//! The shell's jobs: their numbers, messages about them, and the commands jobs, fg, bg, wait.
use super::job::{Job, State};
use super::output::{complain, print};
use super::shell::Shell;
use crate::sys::proc::Status;
use crate::sys::{Errno, file, proc, tty};

impl Shell {
    /// Keeps a job and gives it a number.
    pub(super) fn keep(&mut self, mut job: Job) -> usize {
        if job.number == 0 {
            job.number = self.jobs.iter().map(|job| job.number).max().unwrap_or(0) + 1;
        }
        let number = job.number;
        self.jobs.push(job);
        number
    }

    /// Prints that a job has started in the background.
    pub(super) fn say_started(&self, number: usize) {
        if let Some(job) = self.jobs.iter().find(|job| job.number == number)
            && self.interactive
        {
            let _ = file::write_all(2, format!("[{number}] {}\n", job.pid()).as_bytes());
        }
    }

    /// Prints the state of a job.
    pub(super) fn say(&mut self, number: usize) {
        if let Some(job) = self.jobs.iter_mut().find(|job| job.number == number) {
            job.said = job.state();
            let _ = file::write_all(2, job.line().as_bytes());
        }
    }

    /// Prints changes of the jobs in the background. Called before each prompt.
    pub(super) fn report_jobs(&mut self) {
        self.notice();
        let changed = |job: &&Job| job.state() != job.said;
        let news: Vec<usize> = self.jobs.iter().filter(changed).map(|j| j.number).collect();
        for number in news {
            self.say(number);
        }
        self.jobs
            .retain(|job| !matches!(job.state(), State::Ended(_)));
    }

    /// Collects statuses from wait without blocking.
    fn notice(&mut self) {
        let flags = libc::WNOHANG | libc::WUNTRACED | libc::WCONTINUED;
        while let Ok(Some((pid, status))) = proc::wait(-1, flags) {
            self.jobs.iter_mut().for_each(|job| job.note(pid, status));
        }
    }

    /// The job that `%N`, a process's number or nothing (the one stopped last, else the one begun
    /// last) means.
    fn find_job(&mut self, name: Option<&String>) -> Option<usize> {
        self.notice();
        match name {
            None => {
                let stopped = |job: &Job| matches!(job.state(), State::Stopped(_));
                let last = self.jobs.iter().rposition(stopped);
                last.or(self.jobs.len().checked_sub(1))
            }
            Some(name) => match name.strip_prefix('%').map(str::parse::<usize>) {
                Some(number) => self.jobs.iter().position(|j| Ok(j.number) == number),
                None => {
                    let pid = name.parse::<i32>().ok();
                    self.jobs.iter().position(|j| Some(j.pid()) == pid)
                }
            },
        }
    }

    /// `kill %N`. A stopped job is continued, so that a signal can end it.
    pub(super) fn kill_job(&mut self, name: &String, sig: i32) -> Result<(), Errno> {
        let place = self.find_job(Some(name)).ok_or(Errno(libc::ESRCH))?;
        let job = &mut self.jobs[place];
        let target = match job.group {
            0 => job.pid(),
            group => -group,
        };
        proc::kill(target, sig)?;
        match job.state() {
            State::Stopped(_) if [libc::SIGTERM, libc::SIGHUP].contains(&sig) => job.resume(),
            _ => Ok(()),
        }
    }

    /// Whether a job is stopped.
    fn has_stopped_jobs(&mut self) -> bool {
        self.notice();
        let stopped = |job: &Job| matches!(job.state(), State::Stopped(_));
        self.jobs.iter().any(stopped)
    }

    /// Whether the shell may end: not when jobs are stopped, unless it was asked for twice.
    pub(super) fn may_leave(&mut self) -> bool {
        if self.warned || !self.interactive || !self.has_stopped_jobs() {
            return true;
        }
        complain("there are stopped jobs: fg fetches them, another exit ends them");
        self.warned = true;
        false
    }
}

fn no_such_job(name: Option<&String>) -> i32 {
    let name = name.map_or("%", String::as_str);
    complain(&format!("{name}: no such job"));
    1
}

/// `jobs`.
pub fn jobs(sh: &mut Shell, _: &[String]) -> i32 {
    sh.notice();
    let text: String = sh.jobs.iter().map(Job::line).collect();
    sh.jobs.iter_mut().for_each(|job| job.said = job.state());
    sh.jobs
        .retain(|job| !matches!(job.state(), State::Ended(_)));
    print(&text)
}

/// `fg [JOB]`.
pub fn fg(sh: &mut Shell, args: &[String]) -> i32 {
    let Some(control) = &sh.control else {
        complain("fg: no job control here");
        return 1;
    };
    let modes = control.modes;
    let Some(place) = sh.find_job(args.first()) else {
        return no_such_job(args.first());
    };
    let mut job = sh.jobs.remove(place);
    job.foreground = true;
    let _ = tty::set_foreground(0, job.group);
    let _ = tty::set_modes(0, &job.modes.take().unwrap_or(modes));
    // Said when keys are its own already.
    let _ = print(&format!("{}\n", job.text));
    // One that has ended meanwhile is waited for like any other.
    let _ = job.resume();
    sh.wait_in_foreground(job);
    sh.status
}

/// `bg [JOB]`.
pub fn bg(sh: &mut Shell, args: &[String]) -> i32 {
    if sh.control.is_none() {
        complain("bg: no job control here");
        return 1;
    }
    let Some(place) = sh.find_job(args.first()) else {
        return no_such_job(args.first());
    };
    let job = &mut sh.jobs[place];
    job.foreground = false;
    let text = format!("[{}] {} &\n", job.number, job.text);
    match job.resume() {
        Ok(()) => print(&text),
        Err(e) => {
            complain(&format!("bg: {e}"));
            1
        }
    }
}

/// `wait [JOB ...]`: until they have ended, or one is stopped; without names, all.
pub fn wait(sh: &mut Shell, args: &[String]) -> i32 {
    let numbers: Vec<usize> = match args.is_empty() {
        true => sh.jobs.iter().map(|job| job.number).collect(),
        false => {
            let mut numbers = Vec::new();
            for arg in args {
                match sh.find_job(Some(arg)) {
                    Some(place) => numbers.push(sh.jobs[place].number),
                    None => {
                        no_such_job(Some(arg));
                        return 127;
                    }
                }
            }
            numbers
        }
    };
    let mut status = 0;
    for number in numbers {
        status = match wait_for(sh, number) {
            Ok(status) => status,
            // An interrupted wait is given up: ^C must reach a shell that waits.
            Err(_) => return 130,
        };
    }
    status
}

fn wait_for(sh: &mut Shell, number: usize) -> Result<i32, Errno> {
    loop {
        let Some(place) = sh.jobs.iter().position(|job| job.number == number) else {
            return Ok(127);
        };
        let job = &mut sh.jobs[place];
        let pid = match job.state() {
            State::Running => job.running().unwrap_or(-1),
            State::Stopped(sig) => return Ok(128 + sig),
            State::Ended(status) => {
                sh.jobs.remove(place);
                return Ok(status.code());
            }
        };
        match proc::wait(pid, libc::WUNTRACED) {
            Ok(Some((pid, status))) => job.note(pid, status),
            Ok(None) => {}
            Err(Errno(libc::EINTR)) => return Err(Errno(libc::EINTR)),
            // Another wait has taken it.
            Err(_) => job.note(pid, Status::Exited(127)),
        }
    }
}
