//! Execution of commands: forks, pipes, redirections, the loop that reads lines.
use super::control::Control;
use super::expand::{Variables, arguments, single};
use super::job::Job;
use super::lex::SyntaxError;
use super::parse::{Chain, Command, Pipeline, When, parse};
use super::{builtins, look};
use crate::sys::{Errno, file, proc, sig, time};
use std::collections::BTreeMap;

/// A shell: its variables, `$?`, arguments and children in the background.
#[derive(Default)]
pub struct Shell {
    /// Name to value and whether programs get it.
    pub vars: BTreeMap<String, (String, bool)>,
    /// `$?`.
    pub status: i32,
    /// `$0`, `$1` ...
    pub args: Vec<String>,
    /// Reads from a terminal: prompts and names background processes.
    pub interactive: bool,
    /// Job control, where there is a terminal for it.
    pub control: Option<Control>,
    /// What is stopped, or runs in the background, in order of its last change.
    pub jobs: Vec<Job>,
    /// Set by `exit`.
    pub leaving: bool,
    /// A command of this line was stopped, or ended by ^C: the rest is not run.
    pub interrupted: bool,
    /// The message that jobs are stopped was printed.
    pub warned: bool,
}

impl Variables for Shell {
    fn value(&self, name: &str) -> String {
        match name {
            "?" => self.status.to_string(),
            "$" => proc::getpid().to_string(),
            "#" => self.args.len().saturating_sub(1).to_string(),
            "@" => self.args.get(1..).unwrap_or_default().join(" "),
            _ => match name.parse::<usize>() {
                Ok(n) => self.args.get(n).cloned().unwrap_or_default(),
                Err(_) => self.vars.get(name).map(|v| v.0.clone()).unwrap_or_default(),
            },
        }
    }
}

/// `text` with its control characters shown, not done: an arrow key is typed as some.
fn shown(text: &str) -> String {
    let shown = |c: char| match c.is_control() {
        true => c.escape_default().collect(),
        false => String::from(c),
    };
    text.chars().map(shown).collect()
}

/// A line to standard error, from the shell itself.
pub fn complain(text: &str) {
    let _ = file::write_all(2, format!("sh: {}\n", shown(text)).as_bytes());
}

impl Shell {
    /// A shell with the environment's variables.
    pub fn new(args: Vec<String>) -> Self {
        let text = |s: std::ffi::OsString| s.to_string_lossy().into_owned();
        let vars = std::env::vars_os()
            .map(|(k, v)| (text(k), (text(v), true)))
            .collect();
        Shell {
            vars,
            args,
            ..Shell::default()
        }
    }

    /// Runs a line or a script, or prints its syntax error.
    pub(super) fn run_parsed(&mut self, parsed: Result<Vec<Chain>, SyntaxError>) {
        let warned = self.warned;
        self.interrupted = false;
        match parsed {
            Ok(chains) => self.run_chains(&chains),
            Err(e) => self.bad_syntax(&e),
        }
        // Only an exit right behind the warning is a second one.
        self.warned &= !warned;
    }

    fn bad_syntax(&mut self, e: &SyntaxError) {
        complain(&e.to_string());
        self.status = 2;
    }

    /// Runs a whole text (`-c`, a file): the last status.
    pub fn run_text(&mut self, text: &str) -> i32 {
        self.run_parsed(parse(text));
        self.status
    }

    fn run_chains(&mut self, chains: &[Chain]) {
        for chain in chains {
            if self.leaving || self.interrupted {
                return;
            }
            match chain.background {
                true => self.start(chain),
                false => self.run_chain(chain),
            }
        }
    }

    fn run_chain(&mut self, chain: &Chain) {
        for (when, pipeline) in &chain.pipelines {
            let run = match when {
                When::Always => true,
                When::Success => self.status == 0,
                When::Failure => self.status != 0,
            };
            if run && !self.leaving {
                self.run_pipeline(pipeline);
            }
        }
    }

    /// `&`: the chain runs in a child.
    fn start(&mut self, chain: &Chain) {
        let mut job = Job::new(chain.to_string(), false);
        let started = self.fork_into(&mut job, |sh| {
            sh.run_chain(chain);
            sh.status
        });
        if started {
            self.status = 0;
            let number = self.keep(job);
            self.say_started(number);
        }
    }

    fn run_pipeline(&mut self, pipeline: &Pipeline) {
        let before = pipeline.timed.then(look::clocks);
        match &pipeline.commands[..] {
            [] => self.status = 0,
            [one] => self.run_command(one),
            _ => self.run_pipes(pipeline),
        }
        if let Some(before) = before {
            look::report(&before);
        }
        if pipeline.negated {
            self.status = (self.status == 0) as i32;
        }
    }

    fn run_pipes(&mut self, pipeline: &Pipeline) {
        let mut job = Job::new(pipeline.to_string(), true);
        let mut input: Option<i32> = None;
        for (n, command) in pipeline.commands.iter().enumerate() {
            let last = n + 1 == pipeline.commands.len();
            let pipe = if last {
                None
            } else {
                file::pipe(libc::O_CLOEXEC).ok()
            };
            self.fork_into(&mut job, |sh| {
                // Copies made by dup2 lose close-on-exec; the originals close themselves.
                if let Some(fd) = input {
                    let _ = file::dup2(fd, 0);
                    let _ = file::close(fd);
                }
                if let Some((read, write)) = pipe {
                    let _ = file::dup2(write, 1);
                    let _ = (file::close(read), file::close(write));
                }
                sh.run_here(command)
            });
            if let Some(fd) = input.take() {
                let _ = file::close(fd);
            }
            if let Some((read, write)) = pipe {
                let _ = file::close(write);
                input = Some(read);
            }
        }
        self.wait_in_foreground(job);
    }

    fn run_command(&mut self, command: &Command) {
        let words = arguments(&command.words, self);
        let Some(name) = words.first() else {
            // Assignments alone set the shell's own variables; redirections alone make their files.
            let values: Vec<_> = command
                .assigns
                .iter()
                .map(|(n, w)| (n.clone(), single(w, self)))
                .collect();
            for (name, value) in values {
                let exported = self.vars.get(&name).is_some_and(|v| v.1);
                self.vars.insert(name, (value, exported));
            }
            self.status = 0;
            return self.with_redirections(command, |_| 0);
        };
        let apart = self.control.is_some();
        if let Some(builtin) = builtins::find(name).filter(|b| !(b.apart && apart)) {
            let interrupts = sig::seen(libc::SIGINT);
            self.with_redirections(command, |sh| (builtin.run)(sh, &words[1..]));
            if sig::seen(libc::SIGINT) > interrupts {
                self.interrupted = true;
                look::say_signal(libc::SIGINT);
            }
            return;
        }
        let mut job = Job::new(command.to_string(), true);
        self.fork_into(&mut job, |sh| sh.run_here(command));
        self.wait_in_foreground(job);
    }

    /// In a child: runs `command` in this very process.
    fn run_here(&mut self, command: &Command) -> i32 {
        if let Err(text) = self.redirect(command, &mut Vec::new()) {
            complain(&text);
            return 1;
        }
        let words = arguments(&command.words, self);
        let assigns: Vec<_> = command
            .assigns
            .iter()
            .map(|(n, w)| (n.clone(), single(w, self)))
            .collect();
        self.vars
            .extend(assigns.into_iter().map(|(n, v)| (n, (v, true))));
        match words.first() {
            None => 0,
            Some(name) => match builtins::find(name) {
                Some(builtin) => (builtin.run)(self, &words[1..]),
                None => self.exec(&words),
            },
        }
    }

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

/// Sleeps, unless a signal comes: whether it slept to the end.
pub fn pause(ns: u64) -> bool {
    time::sleep(ns).is_ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn control_characters_are_shown() {
        assert_eq!(super::shown("l\u{1b}[A's ä"), "l\\u{1b}[A's ä");
    }
}
