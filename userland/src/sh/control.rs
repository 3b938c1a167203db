//! Job control: pipelines in process groups of their own, of which the terminal has one in the
//! foreground.
//!
//! Source: POSIX.1-2017, 2.11 and 11.1; The GNU C Library Reference Manual, "Implementing a Job
//! Control Shell".
use super::exec::default_signals;
use super::job::{Job, Process, State};
use super::look;
use super::output::complain;
use super::shell::{Control, Shell};
use crate::sys::proc::Status;
use crate::sys::{Errno, file, proc, sig, tty};

impl Shell {
    /// Takes the terminal for job control. Without one of its own, or in the background for good, a
    /// shell has none.
    pub(super) fn take_terminal(&mut self) {
        let Ok(own) = proc::getpgid(0) else { return };
        if tty::foreground(0) != Ok(own) {
            // In the background: until it is brought to the foreground. In a group that nobody can
            // fetch this does nothing.
            let _ = proc::kill(0, libc::SIGTTIN);
        }
        if tty::foreground(0) != Ok(own) {
            return;
        }
        for signal in [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU, libc::SIGQUIT] {
            let _ = sig::ignore(signal);
        }
        // A session's leader leads its group already (EPERM).
        let _ = proc::setpgid(0, 0);
        let group = proc::getpid();
        if let (Ok(()), Ok(modes)) = (tty::set_foreground(0, group), tty::get_modes(0)) {
            self.control = Some(Control { group, modes });
        }
    }

    /// Forks a process of `job` that ends with the status of `body`; whether that was possible.
    pub(super) fn fork_into(&mut self, job: &mut Job, body: impl FnOnce(&mut Self) -> i32) -> bool {
        match proc::fork() {
            Ok(proc::Fork::Child) => {
                self.become_child(job);
                let status = body(self);
                proc::exit_now(status)
            }
            Ok(proc::Fork::Parent(pid)) => {
                if self.control.is_some() {
                    if job.group == 0 {
                        job.group = pid;
                    }
                    // Both sides do it: whichever comes first. It may have ended already.
                    let _ = proc::setpgid(pid, job.group);
                }
                job.processes.push(Process { pid, status: None });
                true
            }
            Err(e) => {
                complain(&format!("fork: {e}"));
                self.status = 254;
                false
            }
        }
    }

    fn become_child(&mut self, job: &Job) {
        self.interactive = false;
        self.jobs.clear();
        match self.control.take() {
            Some(_) => {
                let group = match job.group {
                    0 => proc::getpid(),
                    group => group,
                };
                let _ = proc::setpgid(0, group);
                if job.foreground {
                    let _ = tty::set_foreground(0, group);
                }
                default_signals();
            }
            None if job.foreground => default_signals(),
            None => {
                // Without the terminal's ^C, and without its input.
                let _ = sig::ignore(libc::SIGINT);
                if let Ok(null) = file::open("/dev/null", libc::O_RDONLY, 0) {
                    let _ = file::dup2(null, 0);
                    let _ = file::close(null);
                }
            }
        }
    }

    /// Waits for a job in the foreground to end or stop, and sets `$?`.
    pub(super) fn wait_in_foreground(&mut self, mut job: Job) {
        if job.processes.is_empty() {
            return;
        }
        let flags = match self.control {
            Some(_) => {
                let _ = tty::set_foreground(0, job.group);
                libc::WUNTRACED
            }
            None => 0,
        };
        while let Some(pid) = job.running() {
            match proc::wait(pid, flags) {
                Ok(Some((pid, status))) => job.note(pid, status),
                Ok(None) | Err(Errno(libc::EINTR)) => {}
                Err(e) => {
                    complain(&format!("wait: {e}"));
                    return self.take_back(None);
                }
            }
        }
        match job.state() {
            State::Ended(status) => {
                self.take_back(Some(status));
                self.status = status.code();
                say_signals(&job);
                self.interrupted |= status == Status::Killed(libc::SIGINT);
            }
            State::Stopped(sig) => {
                job.modes = tty::get_modes(0).ok();
                self.take_back(Some(Status::Stopped(sig)));
                self.status = 128 + sig;
                self.interrupted = true;
                let _ = file::write_all(2, b"\n");
                let number = self.keep(job);
                self.say(number);
            }
            State::Running => {}
        }
    }

    /// The terminal is the shell's again, with the shell's modes unless a program that ended well
    /// has set others.
    fn take_back(&mut self, status: Option<Status>) {
        let Some(control) = &mut self.control else {
            return;
        };
        let _ = tty::set_foreground(0, control.group);
        match (status, tty::get_modes(0)) {
            (Some(Status::Exited(_)), Ok(modes)) => control.modes = modes,
            _ => _ = tty::set_modes(0, &control.modes),
        }
    }
}

/// ^C ends all of a pipeline at once: each signal is said once.
fn say_signals(job: &Job) {
    let mut said = 0;
    for process in &job.processes {
        if let Some(Status::Killed(sig)) = process.status
            && sig != said
        {
            said = sig;
            look::say_signal(sig);
        }
    }
}
