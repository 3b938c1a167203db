//! Programs: how the shell becomes one.
use super::output::complain;
use super::shell::Shell;
use crate::sys::{Errno, proc, sig};

impl Shell {
    /// Replaces this process by the program `words[0]`; returns the status of the error.
    pub fn exec(&self, words: &[String]) -> i32 {
        let env: Vec<_> = self
            .vars
            .iter()
            .filter(|v| v.1.1)
            .map(|(n, v)| format!("{n}={}", v.0))
            .collect();
        let path = self.vars.get("PATH").map_or("/bin", |v| v.0.as_str());
        let (status, text) = match exec_in(path, words, &env) {
            Errno(libc::ENOENT) if !words[0].contains('/') => (127, "not found".to_string()),
            e @ Errno(libc::ENOENT) => (127, e.to_string()),
            Errno(libc::ENOEXEC) => (126, "not a program this machine can run".to_string()),
            e => (126, e.to_string()),
        };
        complain(&format!("{}: {text}", words[0]));
        status
    }
}

/// Tries `words[0]` as a path, or in each directory of `path`: the most specific error.
pub fn exec_in(path: &str, words: &[String], env: &[String]) -> Errno {
    if words[0].contains('/') {
        return proc::exec(&words[0], words, env);
    }
    let mut error = Errno(libc::ENOENT);
    for dir in path.split(':') {
        let e = proc::exec(&format!("{dir}/{}", words[0]), words, env);
        if !matches!(e.0, libc::ENOENT | libc::ENOTDIR) {
            error = e;
        }
    }
    error
}

/// Resets the process to what a program expects at its start.
pub fn default_signals() {
    for s in [
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGPIPE,
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGTSTP,
        libc::SIGTTIN,
        libc::SIGTTOU,
    ] {
        let _ = sig::default(s);
    }
}
