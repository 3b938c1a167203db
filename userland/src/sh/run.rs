//! Execution of commands: forks, pipes, redirections.
use super::expand::{arguments, single};
use super::job::Job;
use super::lex::SyntaxError;
use super::output::complain;
use super::parse::{Chain, Command, Pipeline, When, parse};
use super::shell::Shell;
use super::{builtins, look};
use crate::sys::{file, sig};

impl Shell {
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
}
