//! Running what was parsed: forks, pipes, redirections, the loop that reads lines.
use super::expand::{Variables, arguments, single};
use super::lex::SyntaxError;
use super::parse::{Chain, Command, Pipeline, When, parse};
use super::{builtins, look};
use crate::sys::{self, Errno, file, proc, sig, time, tty};
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
    /// Background processes not yet waited for.
    pub jobs: Vec<i32>,
    /// Set by `exit`.
    pub leaving: bool,
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

    /// Reads and runs lines from standard input until its end or `exit`: the last status.
    pub fn run_input(&mut self) -> i32 {
        self.interactive = tty::is_tty(0);
        // Without SA_RESTART, so that ^C also ends the shell's own wait for a line.
        let _ = sig::count(libc::SIGINT, 0, &[]);
        let mut text = String::new();
        while !self.leaving {
            let prompt = if text.is_empty() { "quire# " } else { "> " };
            match self.read_line(prompt) {
                Ok(Some(line)) => text.push_str(&line),
                Ok(None) if text.is_empty() => break,
                Ok(None) => text.push('\n'),
                Err(_) => {
                    let _ = file::write_all(1, b"\n");
                    self.status = 130;
                    text.clear();
                    continue;
                }
            }
            match parse(&text) {
                // A quote that is open goes on in the next line.
                Err(SyntaxError::Unclosed(_))
                    if text.ends_with('\n') && !text.ends_with("\n\n") =>
                {
                    continue;
                }
                Ok(chains) => self.run_chains(&chains),
                Err(e) => self.bad_syntax(&e),
            }
            text.clear();
        }
        self.status
    }

    fn bad_syntax(&mut self, e: &SyntaxError) {
        complain(&e.to_string());
        self.status = 2;
    }

    fn read_line(&self, prompt: &str) -> sys::Result<Option<String>> {
        if self.interactive {
            let _ = file::write_all(1, prompt.as_bytes());
        }
        let mut line = Vec::new();
        // From a terminal a read gives one line; from a file or pipe programs of ours may want the bytes behind it.
        let mut buf = [0u8; 1024];
        let at_once = if self.interactive { buf.len() } else { 1 };
        loop {
            let n = file::read(0, &mut buf[..at_once])?;
            line.extend_from_slice(&buf[..n]);
            if line.last() == Some(&b'\n') || (n == 0 && !line.is_empty()) {
                return Ok(Some(String::from_utf8_lossy(&line).into_owned()));
            }
            if n == 0 {
                if self.interactive {
                    let _ = file::write_all(1, b"\n");
                }
                return Ok(None);
            }
        }
    }

    /// Runs a whole text (`-c`, a file): the last status.
    pub fn run_text(&mut self, text: &str) -> i32 {
        match parse(text) {
            Ok(chains) => self.run_chains(&chains),
            Err(e) => self.bad_syntax(&e),
        }
        self.status
    }

    fn run_chains(&mut self, chains: &[Chain]) {
        for chain in chains {
            if self.leaving {
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

    /// `&`: the chain runs in a child without the terminal's ^C and without its input.
    fn start(&mut self, chain: &Chain) {
        match proc::fork() {
            Ok(proc::Fork::Child) => {
                let _ = sig::ignore(libc::SIGINT);
                if let Ok(null) = file::open("/dev/null", libc::O_RDONLY, 0) {
                    let _ = file::dup2(null, 0);
                    let _ = file::close(null);
                }
                self.interactive = false;
                self.run_chain(chain);
                proc::exit_now(self.status);
            }
            Ok(proc::Fork::Parent(pid)) => {
                self.jobs.push(pid);
                self.status = 0;
                if self.interactive {
                    let _ = file::write_all(2, format!("[{pid}]\n").as_bytes());
                }
            }
            Err(e) => self.no_fork(e),
        }
    }

    fn no_fork(&mut self, e: Errno) {
        complain(&format!("fork: {e}"));
        self.status = 254;
    }

    fn run_pipeline(&mut self, pipeline: &Pipeline) {
        let before = pipeline.timed.then(look::clocks);
        match &pipeline.commands[..] {
            [] => self.status = 0,
            [one] => self.run_command(one),
            many => self.run_pipes(many),
        }
        if let Some(before) = before {
            look::report(&before);
        }
        if pipeline.negated {
            self.status = (self.status == 0) as i32;
        }
    }

    fn run_pipes(&mut self, commands: &[Command]) {
        let mut pids = Vec::new();
        let mut input: Option<i32> = None;
        for (n, command) in commands.iter().enumerate() {
            let last = n + 1 == commands.len();
            let pipe = if last {
                None
            } else {
                file::pipe(libc::O_CLOEXEC).ok()
            };
            match proc::fork() {
                Ok(proc::Fork::Child) => {
                    default_signals();
                    // Copies made by dup2 lose close-on-exec; the originals close themselves.
                    if let Some(fd) = input {
                        let _ = file::dup2(fd, 0);
                        let _ = file::close(fd);
                    }
                    if let Some((read, write)) = pipe {
                        let _ = file::dup2(write, 1);
                        let _ = (file::close(read), file::close(write));
                    }
                    self.interactive = false;
                    self.run_here(command);
                }
                Ok(proc::Fork::Parent(pid)) => pids.push(pid),
                Err(e) => self.no_fork(e),
            }
            if let Some(fd) = input.take() {
                let _ = file::close(fd);
            }
            if let Some((read, write)) = pipe {
                let _ = file::close(write);
                input = Some(read);
            }
        }
        // ^C ends them all at once: it is said once.
        let mut said = 0;
        for pid in pids {
            match self.await_child(pid) {
                Some(sig) if sig != said => {
                    said = sig;
                    look::say_signal(sig);
                }
                _ => {}
            }
        }
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
        if let Some(run) = builtins::find(name) {
            let interrupts = sig::seen(libc::SIGINT);
            self.with_redirections(command, |sh| run(sh, &words[1..]));
            if sig::seen(libc::SIGINT) > interrupts {
                look::say_signal(libc::SIGINT);
            }
            return;
        }
        match proc::fork() {
            Ok(proc::Fork::Child) => {
                default_signals();
                self.run_here(command)
            }
            Ok(proc::Fork::Parent(pid)) => {
                if let Some(sig) = self.await_child(pid) {
                    look::say_signal(sig);
                }
            }
            Err(e) => self.no_fork(e),
        }
    }

    /// In a child: runs `command` in this very process.
    fn run_here(&mut self, command: &Command) -> ! {
        if let Err(text) = self.redirect(command, &mut Vec::new()) {
            complain(&text);
            proc::exit_now(1);
        }
        let words = arguments(&command.words, self);
        let assigns: Vec<_> = command
            .assigns
            .iter()
            .map(|(n, w)| (n.clone(), single(w, self)))
            .collect();
        self.vars
            .extend(assigns.into_iter().map(|(n, v)| (n, (v, true))));
        let status = match words.first() {
            None => 0,
            Some(name) => match builtins::find(name) {
                Some(run) => run(self, &words[1..]),
                None => self.exec(&words),
            },
        };
        proc::exit_now(status)
    }

    /// Replaces this process by the program `words[0]`; the status says why not.
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

    /// Waits for a child and sets `$?`: the signal that killed it.
    fn await_child(&mut self, pid: i32) -> Option<i32> {
        match proc::wait_for(pid) {
            Ok(status) => {
                self.status = status.code();
                match status {
                    proc::Status::Killed(sig) => Some(sig),
                    _ => None,
                }
            }
            Err(e) => {
                complain(&format!("wait: {e}"));
                None
            }
        }
    }
}

/// Tries `words[0]` as a path, or in each directory of `path`: the error that says most.
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

/// What a program expects to start with.
pub fn default_signals() {
    for s in [
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGPIPE,
        libc::SIGSEGV,
        libc::SIGBUS,
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
