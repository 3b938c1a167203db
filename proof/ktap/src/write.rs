//! Diagnostics of many lines.

use core::fmt::{Arguments, Result, Write};

/// Writes `text` with `# ` before each of its lines, and a line end behind it.
pub fn diagnostics(out: &mut dyn Write, text: Arguments<'_>) -> Result {
    let mut lines = Lines {
        out,
        line_begins: true,
    };
    lines.write_fmt(text)?;
    out.write_char('\n')
}

/// Puts `# ` before every line that is written through it.
struct Lines<'a> {
    out: &'a mut dyn Write,
    line_begins: bool,
}

impl Write for Lines<'_> {
    fn write_str(&mut self, text: &str) -> Result {
        for piece in text.split_inclusive('\n') {
            if self.line_begins {
                self.out.write_str("# ")?;
            }
            self.out.write_str(piece)?;
            self.line_begins = piece.ends_with('\n');
        }
        Ok(())
    }
}
