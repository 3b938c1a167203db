//! Commands as text, for `jobs`.
use super::lex::{Piece, Word};
use super::parse::{Chain, Command, Pipeline, Target, When};
use std::fmt::{Display, Formatter, Result};

impl Display for Chain {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        for (when, pipeline) in &self.pipelines {
            match when {
                When::Always => {}
                When::Success => f.write_str(" && ")?,
                When::Failure => f.write_str(" || ")?,
            }
            pipeline.fmt(f)?;
        }
        Ok(())
    }
}

impl Display for Pipeline {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        if self.negated {
            f.write_str("! ")?;
        }
        for (n, command) in self.commands.iter().enumerate() {
            f.write_str(if n == 0 { "" } else { " | " })?;
            command.fmt(f)?;
        }
        Ok(())
    }
}

impl Display for Command {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let assigns = self.assigns.iter().map(|(n, w)| format!("{n}={}", text(w)));
        let words = self.words.iter().map(text);
        let redirections = self.redirections.iter().map(|(fd, to)| match to {
            Target::Read(w) => redirection(*fd, 0, "<", &text(w)),
            Target::Write(w) => redirection(*fd, 1, ">", &text(w)),
            Target::Append(w) => redirection(*fd, 1, ">>", &text(w)),
            Target::Dup(n) => redirection(*fd, 1, ">&", &n.to_string()),
        });
        let all: Vec<String> = assigns.chain(words).chain(redirections).collect();
        f.write_str(&all.join(" "))
    }
}

/// The number of a descriptor stands only before a sign that does not mean it anyway.
fn redirection(fd: i32, usual: i32, sign: &str, target: &str) -> String {
    match fd == usual {
        true => format!("{sign}{target}"),
        false => format!("{fd}{sign}{target}"),
    }
}

fn text(word: &Word) -> String {
    let piece = |piece: &Piece| match piece {
        Piece::Text {
            text,
            quoted: false,
        } => text.clone(),
        Piece::Text { text, .. } => format!("'{text}'"),
        Piece::Var {
            name,
            quoted: false,
        } => format!("${name}"),
        Piece::Var { name, .. } => format!("\"${name}\""),
    };
    // An empty piece says only that something was quoted.
    let empty = |piece: &&Piece| matches!(piece, Piece::Text { text, .. } if text.is_empty());
    match word.iter().all(|piece| empty(&piece)) {
        true => "''".to_owned(),
        false => word
            .iter()
            .filter(|piece| !empty(piece))
            .map(piece)
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse::parse;

    #[test]
    fn lines_read_as_they_were_typed() {
        for line in [
            "sleep 100",
            "echo ''",
            "X=1 a 'b c' $D \"$E\" | c >f 2>&1 && ! d <g || e 2>>h",
        ] {
            assert_eq!(parse(line).unwrap()[0].to_string(), line);
        }
    }
}
