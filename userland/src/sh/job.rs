//! A job: a pipeline, or what `&` put into the background, as what its processes do.
use super::look;
use crate::sys::proc::Status;
use crate::sys::{Errno, proc};

/// The state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// At least one runs.
    Running,
    /// None runs and one is stopped, by this signal.
    Stopped(i32),
    /// All have ended; how the last one of the pipeline did.
    Ended(Status),
}

/// A process of a job.
pub struct Process {
    /// Its number.
    pub pid: i32,
    /// Its last status from wait.
    pub status: Option<Status>,
}

/// A pipeline, or a chain in the background.
pub struct Job {
    /// From 1; 0 before it has one.
    pub number: usize,
    /// Its process group; 0 without job control, when its processes are in the shell's own.
    pub group: i32,
    /// Whether it has the terminal.
    pub foreground: bool,
    /// In the order of the pipeline.
    pub processes: Vec<Process>,
    /// The command as it was typed.
    pub text: String,
    /// The terminal's modes that it had when it was stopped.
    pub modes: Option<libc::termios>,
    /// The state that was printed last.
    pub said: State,
}

impl Job {
    /// A job without processes yet.
    pub fn new(text: String, foreground: bool) -> Self {
        Job {
            number: 0,
            group: 0,
            foreground,
            processes: Vec::new(),
            text,
            modes: None,
            said: State::Running,
        }
    }

    fn pids(&self) -> impl Iterator<Item = i32> {
        self.processes.iter().map(|process| process.pid)
    }

    /// The number shown to the user: that of its last process.
    pub fn pid(&self) -> i32 {
        self.pids().last().unwrap_or(0)
    }

    /// A process of it that runs.
    pub fn running(&self) -> Option<i32> {
        let runs = |p: &&Process| matches!(p.status, None | Some(Status::Continued));
        self.processes.iter().find(runs).map(|p| p.pid)
    }

    /// The state of the job as a whole.
    pub fn state(&self) -> State {
        if self.running().is_some() {
            return State::Running;
        }
        let stop = self.processes.iter().find_map(|p| match p.status {
            Some(Status::Stopped(sig)) => Some(State::Stopped(sig)),
            _ => None,
        });
        let last = self.processes.last().and_then(|p| p.status);
        stop.unwrap_or(State::Ended(last.unwrap_or(Status::Exited(0))))
    }

    /// Records a status from wait.
    pub fn note(&mut self, pid: i32, status: Status) {
        for process in self.processes.iter_mut().filter(|p| p.pid == pid) {
            process.status = Some(status);
        }
    }

    /// Continues it. Its processes count as running before wait reports it.
    pub fn resume(&mut self) -> Result<(), Errno> {
        let stopped = |p: &&mut Process| matches!(p.status, Some(Status::Stopped(_)));
        self.processes
            .iter_mut()
            .filter(stopped)
            .for_each(|p| p.status = Some(Status::Continued));
        self.said = State::Running;
        proc::kill(-self.group, libc::SIGCONT)
    }

    /// As `jobs` shows it.
    pub fn line(&self) -> String {
        let state = match self.state() {
            State::Running => "Running".to_owned(),
            State::Stopped(libc::SIGTTIN) => "Stopped (wants to read)".to_owned(),
            State::Stopped(_) => "Stopped".to_owned(),
            State::Ended(Status::Exited(0)) => "Done".to_owned(),
            State::Ended(Status::Killed(sig)) => look::signal_text(sig),
            State::Ended(status) => format!("Exit {}", status.code()),
        };
        format!("[{}]  {state:<10} {}\n", self.number, self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_what_its_processes_are() {
        let mut job = Job::new("a | b".to_owned(), true);
        job.processes = [1, 2].map(|pid| Process { pid, status: None }).into();
        assert_eq!((job.state(), job.running()), (State::Running, Some(1)));
        job.note(1, Status::Killed(13));
        job.note(2, Status::Stopped(20));
        assert_eq!(job.state(), State::Stopped(20));
        assert_eq!(job.line(), "[0]  Stopped    a | b\n");
        job.note(2, Status::Continued);
        assert_eq!(job.state(), State::Running);
        job.note(2, Status::Exited(3));
        assert_eq!(job.state(), State::Ended(Status::Exited(3)));
        assert_eq!(
            (job.pid(), job.line().as_str()),
            (2, "[0]  Exit 3     a | b\n")
        );
    }
}
