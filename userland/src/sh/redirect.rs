//! Redirections: applied from left to right, and undone after a built-in.
use super::expand::single;
use super::output::complain;
use super::parse::{Command, Target};
use super::shell::Shell;
use crate::sys::file;

impl Shell {
    /// Runs a built-in with the command's redirections, which are undone afterwards.
    pub(super) fn with_redirections(
        &mut self,
        command: &Command,
        run: impl FnOnce(&mut Self) -> i32,
    ) {
        let mut saved = Vec::new();
        match self.redirect(command, &mut saved) {
            Ok(()) => self.status = run(self),
            Err(text) => {
                complain(&text);
                self.status = 1;
            }
        }
        for (fd, copy) in saved.into_iter().rev() {
            let _ = match copy {
                Some(copy) => file::dup2(copy, fd).and_then(|_| file::close(copy)),
                None => file::close(fd),
            };
        }
    }

    /// Applies redirections from left to right; `saved` gets a copy of what each descriptor was.
    pub(super) fn redirect(
        &self,
        command: &Command,
        saved: &mut Vec<(i32, Option<i32>)>,
    ) -> Result<(), String> {
        for (fd, target) in &command.redirections {
            // Copies live above the numbers a line can name, and close when a program starts.
            saved.push((*fd, file::fcntl(*fd, libc::F_DUPFD_CLOEXEC, 10).ok()));
            let open = |word, flags| {
                let path = single(word, self);
                let opened = file::open(&path, flags | libc::O_CLOEXEC, 0o666);
                opened.map_err(|e| format!("{path}: {e}"))
            };
            let create = libc::O_WRONLY | libc::O_CREAT;
            let from = match target {
                Target::Read(w) => open(w, libc::O_RDONLY)?,
                Target::Write(w) => open(w, create | libc::O_TRUNC)?,
                Target::Append(w) => open(w, create | libc::O_APPEND)?,
                Target::Dup(n) => {
                    file::dup2(*n, *fd).map_err(|e| format!("{n}: {e}"))?;
                    continue;
                }
            };
            if from == *fd {
                // It came out right by itself; only the program must keep it.
                let _ = file::fcntl(from, libc::F_SETFD, 0);
                continue;
            }
            file::dup2(from, *fd).map_err(|e| format!("{fd}: {e}"))?;
            let _ = file::close(from);
        }
        Ok(())
    }
}
