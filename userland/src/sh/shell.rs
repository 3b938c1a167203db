//! The state of a shell.
use super::expand::Variables;
use super::job::Job;
use crate::sys::proc;
use std::collections::BTreeMap;

/// The terminal that a shell with job control hands to its jobs and takes back.
pub struct Control {
    /// The shell's process group.
    pub(super) group: i32,
    /// The terminal's modes while the shell reads.
    pub modes: libc::termios,
}

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
}
