//! The lexer: text to tokens.
use std::fmt;

/// A piece of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Literal characters; quoted ones are no patterns and are never split.
    Text {
        /// The characters.
        text: String,
        /// Inside quotes or behind a backslash.
        quoted: bool,
    },
    /// `$NAME`, `${NAME}`, `$?`, `$$`, `$0`, `$#`, `$@`.
    Var {
        /// The name without `$` and braces.
        name: String,
        /// Inside double quotes: not split into words.
        quoted: bool,
    },
}

/// A word before expansion.
pub type Word = Vec<Piece>;

/// Signs between words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    /// A word.
    Word(Word),
    /// `;`.
    Semi,
    /// A new line: ends a command as `;` does, but may also follow `|`, `&&` and `||`.
    Line,
    /// `&`.
    Amp,
    /// `&&`.
    And,
    /// `||`.
    Or,
    /// `|`.
    Pipe,
    /// `N<`: read a file.
    Read(i32),
    /// `N>`: write a file.
    Write(i32),
    /// `N>>`: append to a file.
    Append(i32),
    /// `N>&M`, `N<&M`: copy a descriptor.
    Dup(i32, i32),
}

/// A syntax error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyntaxError {
    /// A quote that is not closed.
    Unclosed(char),
    /// Something else was expected here.
    Unexpected(String),
    /// `>&` without a number.
    BadDescriptor,
    /// `${` without `}`.
    BadVariable,
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SyntaxError::Unclosed(q) => write!(f, "a {q} is not closed"),
            SyntaxError::Unexpected(what) => write!(f, "did not expect {what} here"),
            SyntaxError::BadDescriptor => f.write_str("a descriptor number is expected after >&"),
            SyntaxError::BadVariable => f.write_str("a } is missing after ${"),
        }
    }
}

/// All tokens of `text`.
pub fn lex(text: &str) -> Result<Vec<Token>, SyntaxError> {
    let mut lexer = Lexer {
        chars: text.chars().peekable(),
        tokens: Vec::new(),
    };
    lexer.all()?;
    Ok(lexer.tokens)
}

struct Lexer<'a> {
    chars: std::iter::Peekable<std::str::Chars<'a>>,
    tokens: Vec<Token>,
}

impl Lexer<'_> {
    fn all(&mut self) -> Result<(), SyntaxError> {
        while let Some(&c) = self.chars.peek() {
            match c {
                ' ' | '\t' | '\r' => drop(self.chars.next()),
                '#' => while self.chars.next_if(|&c| c != '\n').is_some() {},
                ';' => self.sign(Token::Semi),
                '\n' => self.sign(Token::Line),
                '&' => self.doubled('&', Token::Amp, Token::And),
                '|' => self.doubled('|', Token::Pipe, Token::Or),
                '<' | '>' => self.redirection(None)?,
                _ => self.word()?,
            }
        }
        Ok(())
    }

    fn sign(&mut self, token: Token) {
        self.chars.next();
        self.tokens.push(token);
    }

    fn doubled(&mut self, c: char, one: Token, two: Token) {
        self.chars.next();
        let token = if self.chars.next_if_eq(&c).is_some() {
            two
        } else {
            one
        };
        self.tokens.push(token);
    }

    /// `<`, `>`, `>>`, `>&N`, with the number before it.
    fn redirection(&mut self, number: Option<i32>) -> Result<(), SyntaxError> {
        let reads = self.chars.next() == Some('<');
        let fd = number.unwrap_or(if reads { 0 } else { 1 });
        let token = if self.chars.next_if_eq(&'&').is_some() {
            let mut digits = String::new();
            while let Some(c) = self.chars.next_if(char::is_ascii_digit) {
                digits.push(c);
            }
            Token::Dup(fd, digits.parse().map_err(|_| SyntaxError::BadDescriptor)?)
        } else if reads {
            Token::Read(fd)
        } else if self.chars.next_if_eq(&'>').is_some() {
            Token::Append(fd)
        } else {
            Token::Write(fd)
        };
        self.tokens.push(token);
        Ok(())
    }

    fn word(&mut self) -> Result<(), SyntaxError> {
        let mut word = Word::new();
        let mut bare = String::new();
        while let Some(&c) = self.chars.peek() {
            match c {
                ' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' => break,
                '<' | '>' => {
                    // `2>` is a redirection of descriptor 2, `a2>` is not.
                    if word.is_empty()
                        && bare.len() == 1
                        && bare.bytes().all(|b| b.is_ascii_digit())
                    {
                        return self.redirection(bare.parse().ok());
                    }
                    break;
                }
                '\'' | '"' | '\\' | '$' => {
                    push_text(&mut word, &mut bare, false);
                    self.chars.next();
                    self.special(c, &mut word)?;
                }
                _ => {
                    bare.push(c);
                    self.chars.next();
                }
            }
        }
        push_text(&mut word, &mut bare, false);
        // A backslash before a new line joins lines: it may leave no word at all.
        if !word.is_empty() {
            self.tokens.push(Token::Word(word));
        }
        Ok(())
    }

    fn special(&mut self, c: char, word: &mut Word) -> Result<(), SyntaxError> {
        match c {
            '\'' => {
                let mut text = String::new();
                loop {
                    match self.chars.next() {
                        None => return Err(SyntaxError::Unclosed('\'')),
                        Some('\'') => break,
                        Some(c) => text.push(c),
                    }
                }
                word.push(Piece::Text { text, quoted: true });
            }
            '"' => self.double_quotes(word)?,
            '\\' => match self.chars.next() {
                Some('\n') => {}
                other => word.push(Piece::Text {
                    text: other.unwrap_or('\\').to_string(),
                    quoted: true,
                }),
            },
            _ => self.variable(word, false)?,
        }
        Ok(())
    }

    fn double_quotes(&mut self, word: &mut Word) -> Result<(), SyntaxError> {
        let mut text = String::new();
        // An empty pair of quotes is still a word.
        word.push(Piece::Text {
            text: String::new(),
            quoted: true,
        });
        loop {
            match self.chars.next() {
                None => return Err(SyntaxError::Unclosed('"')),
                Some('"') => break,
                Some('\\') => match self.chars.next() {
                    Some(c @ ('"' | '\\' | '$' | '`')) => text.push(c),
                    Some('\n') => {}
                    Some(c) => text.extend(['\\', c]),
                    None => return Err(SyntaxError::Unclosed('"')),
                },
                Some('$') => {
                    push_text(word, &mut text, true);
                    self.variable(word, true)?;
                }
                Some(c) => text.push(c),
            }
        }
        push_text(word, &mut text, true);
        Ok(())
    }

    /// What follows a `$`; a lone `$` stands for itself.
    fn variable(&mut self, word: &mut Word, quoted: bool) -> Result<(), SyntaxError> {
        let mut name = String::new();
        if self.chars.next_if_eq(&'{').is_some() {
            loop {
                match self.chars.next() {
                    Some('}') if !name.is_empty() => break,
                    Some(c) if c.is_ascii_alphanumeric() || "_?$#@".contains(c) => name.push(c),
                    _ => return Err(SyntaxError::BadVariable),
                }
            }
        } else if let Some(c) = self
            .chars
            .next_if(|&c| "?$#@".contains(c) || c.is_ascii_digit())
        {
            name.push(c);
        } else {
            while let Some(c) = self
                .chars
                .next_if(|&c| c.is_ascii_alphanumeric() || c == '_')
            {
                name.push(c);
            }
        }
        word.push(match name.is_empty() {
            true => Piece::Text {
                text: "$".into(),
                quoted: true,
            },
            false => Piece::Var { name, quoted },
        });
        Ok(())
    }
}

fn push_text(word: &mut Word, text: &mut String, quoted: bool) {
    if !text.is_empty() {
        word.push(Piece::Text {
            text: std::mem::take(text),
            quoted,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> Token {
        Token::Word(vec![Piece::Text {
            text: text.into(),
            quoted: false,
        }])
    }

    #[test]
    fn signs_split_words() {
        assert_eq!(
            lex("a|b&&c||d;e&").unwrap(),
            [
                plain("a"),
                Token::Pipe,
                plain("b"),
                Token::And,
                plain("c"),
                Token::Or,
                plain("d"),
                Token::Semi,
                plain("e"),
                Token::Amp
            ]
        );
    }

    #[test]
    fn redirections_with_numbers() {
        assert_eq!(
            lex("a 2>&1 2>>f a2>g <h").unwrap(),
            [
                plain("a"),
                Token::Dup(2, 1),
                Token::Append(2),
                plain("f"),
                plain("a2"),
                Token::Write(1),
                plain("g"),
                Token::Read(0),
                plain("h")
            ]
        );
        assert_eq!(lex("a >&x"), Err(SyntaxError::BadDescriptor));
    }

    #[test]
    fn quotes_and_variables() {
        let Token::Word(w) = &lex("a'b c'\"$X-${Y}\"\\*").unwrap()[0] else {
            panic!("no word")
        };
        assert_eq!(
            w[1],
            Piece::Text {
                text: "b c".into(),
                quoted: true
            }
        );
        assert!(w.contains(&Piece::Var {
            name: "X".into(),
            quoted: true
        }));
        assert!(w.contains(&Piece::Var {
            name: "Y".into(),
            quoted: true
        }));
        assert_eq!(
            w.last(),
            Some(&Piece::Text {
                text: "*".into(),
                quoted: true
            })
        );
        assert_eq!(lex("'a"), Err(SyntaxError::Unclosed('\'')));
        assert_eq!(lex("${a"), Err(SyntaxError::BadVariable));
    }

    #[test]
    fn comments_end_at_the_line() {
        assert_eq!(lex("# x\na # y").unwrap(), [Token::Line, plain("a")]);
        assert_eq!(lex("a#b").unwrap(), [plain("a#b")]);
    }
}
