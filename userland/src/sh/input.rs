//! The shell's loop: a prompt, a line, its commands.
use super::edit::{Line, Reader};
use super::lex::SyntaxError;
use super::parse::parse;
use super::shell::Shell;
use crate::sys::sig;

impl Shell {
    /// Reads and runs lines from standard input until its end or `exit`: the last status.
    pub fn run_input(&mut self) -> i32 {
        let mut reader = Reader::of_input();
        self.interactive = reader.is_terminal();
        // Without SA_RESTART, so that ^C also ends the shell's own waits.
        let _ = sig::count(libc::SIGINT, 0, &[]);
        if self.interactive {
            self.take_terminal();
        }
        let mut text = String::new();
        while !self.leaving {
            if self.interactive && text.is_empty() {
                self.report_jobs();
            }
            let prompt = if text.is_empty() { "quire# " } else { "> " };
            match reader.read(prompt) {
                Line::Text(line) => text.push_str(&line),
                Line::End if text.is_empty() => {
                    self.leaving = self.may_leave();
                    continue;
                }
                Line::End => text.push('\n'),
                Line::Interrupted => {
                    self.status = 130;
                    text.clear();
                    continue;
                }
            }
            let parsed = parse(&text);
            // An open quote continues on the next line.
            if matches!(parsed, Err(SyntaxError::Unclosed(_)))
                && text.ends_with('\n')
                && !text.ends_with("\n\n")
            {
                continue;
            }
            reader.remember(&text);
            self.run_parsed(parsed);
            text.clear();
        }
        self.status
    }
}
