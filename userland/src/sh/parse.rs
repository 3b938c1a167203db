//! The parser: tokens to commands.
use super::lex::{Piece, SyntaxError, Token, Word, lex};

/// The target of a redirection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// `<`.
    Read(Word),
    /// `>`.
    Write(Word),
    /// `>>`.
    Append(Word),
    /// `>&N`.
    Dup(i32),
}

/// One command: assignments, words, redirections in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// `NAME=word` before the command's name.
    pub assigns: Vec<(String, Word)>,
    /// Name and arguments.
    pub words: Vec<Word>,
    /// Descriptor and target, applied from left to right.
    pub redirections: Vec<(i32, Target)>,
}

/// Commands joined by pipes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pipeline {
    /// `time` stood before it.
    pub timed: bool,
    /// `!` stood before it.
    pub negated: bool,
    /// From left to right.
    pub commands: Vec<Command>,
}

/// When a pipeline of a chain runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// The first one, always.
    Always,
    /// After `&&`.
    Success,
    /// After `||`.
    Failure,
}

/// Pipelines joined by `&&` and `||`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// In order.
    pub pipelines: Vec<(When, Pipeline)>,
    /// `&` ended it: do not wait.
    pub background: bool,
}

/// Parses a whole text: a line or a script.
pub fn parse(text: &str) -> Result<Vec<Chain>, SyntaxError> {
    let mut chains = Vec::new();
    let mut chain = Chain::default();
    let mut pipeline = Pipeline::default();
    let mut command = Command::default();
    let mut when = When::Always;
    let mut tokens = lex(text)?.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            Token::Word(w) => add_word(&mut pipeline, &mut command, w),
            Token::Read(fd) => command
                .redirections
                .push((fd, Target::Read(file(tokens.next())?))),
            Token::Write(fd) => command
                .redirections
                .push((fd, Target::Write(file(tokens.next())?))),
            Token::Append(fd) => command
                .redirections
                .push((fd, Target::Append(file(tokens.next())?))),
            Token::Dup(fd, to) => command.redirections.push((fd, Target::Dup(to))),
            Token::Pipe => {
                need(&command, "|")?;
                pipeline.commands.push(std::mem::take(&mut command));
                // A line may end behind a `|`.
                while tokens.next_if_eq(&Token::Line).is_some() {}
                if tokens.peek().is_none() {
                    return Err(SyntaxError::Unexpected("the end after |".into()));
                }
            }
            Token::And | Token::Or => {
                let (sign, next) = if token == Token::And {
                    ("&&", When::Success)
                } else {
                    ("||", When::Failure)
                };
                need(&command, sign)?;
                end_pipeline(&mut chain, &mut pipeline, &mut command, when)?;
                when = next;
                while tokens.next_if_eq(&Token::Line).is_some() {}
                if tokens.peek().is_none() {
                    return Err(SyntaxError::Unexpected(format!("the end after {sign}")));
                }
            }
            Token::Semi | Token::Line | Token::Amp => {
                end_pipeline(&mut chain, &mut pipeline, &mut command, when)?;
                when = When::Always;
                chain.background = token == Token::Amp;
                if chain.pipelines.is_empty() && chain.background {
                    return Err(SyntaxError::Unexpected("&".into()));
                }
                end_chain(&mut chains, &mut chain);
            }
        }
    }
    end_pipeline(&mut chain, &mut pipeline, &mut command, when)?;
    end_chain(&mut chains, &mut chain);
    Ok(chains)
}

fn file(token: Option<Token>) -> Result<Word, SyntaxError> {
    match token {
        Some(Token::Word(w)) => Ok(w),
        _ => Err(SyntaxError::Unexpected(
            "a redirection without a file".into(),
        )),
    }
}

fn is_empty(c: &Command) -> bool {
    c.assigns.is_empty() && c.words.is_empty() && c.redirections.is_empty()
}

fn need(c: &Command, sign: &str) -> Result<(), SyntaxError> {
    if is_empty(c) {
        Err(SyntaxError::Unexpected(sign.into()))
    } else {
        Ok(())
    }
}

fn end_pipeline(
    chain: &mut Chain,
    p: &mut Pipeline,
    c: &mut Command,
    when: When,
) -> Result<(), SyntaxError> {
    if !is_empty(c) {
        p.commands.push(std::mem::take(c));
    } else if !p.commands.is_empty() {
        return Err(SyntaxError::Unexpected("nothing after |".into()));
    } else if when != When::Always {
        return Err(SyntaxError::Unexpected("nothing after && or ||".into()));
    } else if !p.negated && !p.timed {
        return Ok(());
    }
    chain.pipelines.push((when, std::mem::take(p)));
    Ok(())
}

fn end_chain(chains: &mut Vec<Chain>, chain: &mut Chain) {
    if !chain.pipelines.is_empty() {
        chains.push(std::mem::take(chain));
    }
    *chain = Chain::default();
}

/// A word is `time` or `!` at the start of a pipeline, an assignment before the name, or a part of
/// the command.
fn add_word(pipeline: &mut Pipeline, command: &mut Command, word: Word) {
    let bare = match &word[..] {
        [
            Piece::Text {
                text,
                quoted: false,
            },
        ] => text.as_str(),
        _ => "",
    };
    let first = pipeline.commands.is_empty() && is_empty(command);
    if first && bare == "!" {
        pipeline.negated = !pipeline.negated;
    } else if first && bare == "time" {
        pipeline.timed = true;
    } else if let (true, Some((name, value))) = (command.words.is_empty(), assignment(&word)) {
        command.assigns.push((name, value));
    } else {
        command.words.push(word);
    }
}

fn assignment(word: &Word) -> Option<(String, Word)> {
    let Some(Piece::Text {
        text,
        quoted: false,
    }) = word.first()
    else {
        return None;
    };
    let (name, rest) = text.split_once('=')?;
    if !is_name(name) {
        return None;
    }
    let mut value = word[1..].to_vec();
    value.insert(
        0,
        Piece::Text {
            text: rest.into(),
            quoted: false,
        },
    );
    Some((name.into(), value))
}

/// Whether `text` may name a variable.
pub fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes
        .next()
        .is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_everything() {
        let chains = parse("X=1 a b | c >f 2>&1 && ! d || e & time f; g\n").unwrap();
        assert_eq!(chains.len(), 3);
        let first = &chains[0];
        assert!(first.background);
        assert_eq!(first.pipelines.len(), 3);
        assert_eq!(first.pipelines[0].1.commands[0].assigns[0].0, "X");
        assert_eq!(first.pipelines[0].1.commands[1].redirections.len(), 2);
        assert_eq!(first.pipelines[1].0, When::Success);
        assert!(first.pipelines[1].1.negated);
        assert_eq!(first.pipelines[2].0, When::Failure);
        assert!(chains[1].pipelines[0].1.timed);
        assert!(!chains[2].background);
    }

    #[test]
    fn nothing_is_nothing() {
        assert_eq!(parse("").unwrap(), []);
        assert_eq!(parse(" ;; \n # only\n").unwrap(), []);
    }

    #[test]
    fn lines_may_end_after_a_sign() {
        assert_eq!(parse("a |\n b").unwrap().len(), 1);
        assert_eq!(parse("a &&\n b").unwrap().len(), 1);
    }

    #[test]
    fn what_is_no_command_is_an_error() {
        for bad in [
            "|", "a |", "| a", "a && ", "&& a", "a || ;b", "&", "a >", "a > | b", "'", "a | ; b",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn assignments_only_before_the_name() {
        let c = &parse("A=1 B='x y' echo C=2").unwrap()[0].pipelines[0]
            .1
            .commands[0];
        assert_eq!(c.assigns.len(), 2);
        assert_eq!(c.words.len(), 2);
        assert!(!is_name("1a") && is_name("_a1") && !is_name(""));
    }
}
