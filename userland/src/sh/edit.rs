//! The shell's input lines: an editor on a terminal, plain reading elsewhere.
use super::complete::Words;
use crate::sys::{self, file, tty};
use rustyline::config::{CompletionType, Config, Configurer};
use rustyline::error::ReadlineError;
use rustyline::history::MemHistory;
use rustyline::{Editor, Result};

/// Bytes read from a terminal at once; the kernel gives one line.
const ROOM: usize = 1024;

/// The result of reading a line.
pub enum Line {
    /// A line, with its end.
    Text(String),
    /// ^C, or a signal with a handler.
    Interrupted,
    /// The end of the input.
    End,
}

/// A source of lines.
pub enum Reader {
    /// Keys are edited here, with a history.
    Editor(Box<Editor<Words, MemHistory>>),
    /// A terminal without control sequences (`TERM=dumb`), edited by its kernel.
    Terminal,
    /// A file or a pipe.
    Plain,
}

impl Reader {
    /// The reader for standard input.
    pub fn of_input() -> Self {
        if !tty::is_tty(0) {
            return Reader::Plain;
        }
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        match (!dumb && tty::is_tty(1)).then(editor) {
            Some(Ok(editor)) => Reader::Editor(Box::new(editor)),
            _ => Reader::Terminal,
        }
    }

    /// Whether the input is interactive.
    pub fn is_terminal(&self) -> bool {
        !matches!(self, Reader::Plain)
    }

    /// The next line.
    pub fn read(&mut self, prompt: &str) -> Line {
        let line = match self {
            Reader::Editor(editor) => return edited(editor, prompt),
            Reader::Terminal => {
                let _ = file::write_all(1, prompt.as_bytes());
                plain(ROOM)
            }
            // Programs may read the bytes behind the line.
            Reader::Plain => plain(1),
        };
        let end = match line {
            Ok(Some(line)) => return Line::Text(line),
            Ok(None) => Line::End,
            Err(_) => Line::Interrupted,
        };
        if self.is_terminal() {
            let _ = file::write_all(1, b"\n");
        }
        end
    }

    /// Adds a command to the history.
    pub fn remember(&mut self, command: &str) {
        if let Reader::Editor(editor) = self {
            // A command that is not kept is no reason to stop.
            let _ = editor.add_history_entry(command.trim_end());
        }
    }
}

/// Pasted lines run one by one, and nothing is printed but what every terminal knows.
fn editor() -> Result<Editor<Words, MemHistory>> {
    let config = Config::builder().bracketed_paste(false);
    let config = config.completion_type(CompletionType::List).build();
    let history = MemHistory::with_config(&config);
    let mut editor = Editor::with_history(config, history)?;
    editor.enable_synchronized_output(false);
    editor.set_helper(Some(Words::new()));
    Ok(editor)
}

fn edited(editor: &mut Editor<Words, MemHistory>, prompt: &str) -> Line {
    match editor.readline(prompt) {
        Ok(line) => Line::Text(line + "\n"),
        Err(ReadlineError::Interrupted | ReadlineError::Signal(_)) => Line::Interrupted,
        Err(_) => Line::End,
    }
}

/// A line of descriptor 0, read in steps of `step` bytes; none at the end.
fn plain(step: usize) -> sys::Result<Option<String>> {
    let mut line = Vec::new();
    let mut buf = [0u8; ROOM];
    loop {
        let n = file::read(0, &mut buf[..step])?;
        line.extend_from_slice(&buf[..n]);
        if line.last() == Some(&b'\n') || (n == 0 && !line.is_empty()) {
            return Ok(Some(String::from_utf8_lossy(&line).into_owned()));
        }
        if n == 0 {
            return Ok(None);
        }
    }
}
