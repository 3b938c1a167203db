//! Settings that are one of a list of words: a file shows all of them with the chosen one in
//! brackets, a program writes one of them.

use core::fmt;

/// Why a value is refused; nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadValue {
    /// Not one of the words.
    Word,
    /// Not a size, or not one that a folio can have.
    Size,
    /// A range that ends before it starts.
    Range,
    /// No colon between sizes and word.
    Shape,
}

impl fmt::Display for BadValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BadValue::Word => "an unknown word",
            BadValue::Size => "a size that is not one of 16K, 32K ... 2M",
            BadValue::Range => "a range of sizes that ends before it starts",
            BadValue::Shape => "not SIZES:WORD, with semicolons between",
        })
    }
}

/// A setting that is one of a fixed list of words.
pub trait Choice: Copy + PartialEq + 'static {
    /// Every value with its word, in the order in which the file shows them.
    const ALL: &'static [(Self, &'static str)];

    /// The value that `text` names. Programs write a NUL or a newline at the end: they do not
    /// count.
    fn parse(text: &str) -> Option<Self> {
        let text = stripped(text);
        let (value, _) = Self::ALL.iter().find(|(_, word)| *word == text)?;
        Some(*value)
    }

    /// All words, this one in brackets: `always [madvise] never`.
    fn shown(self) -> impl fmt::Display {
        fmt::from_fn(move |out| {
            for (i, (value, word)) in Self::ALL.iter().enumerate() {
                let blank = if i == 0 { "" } else { " " };
                match *value == self {
                    true => write!(out, "{blank}[{word}]")?,
                    false => write!(out, "{blank}{word}")?,
                }
            }
            Ok(())
        })
    }
}

/// `text` without the NULs and blanks around it.
pub fn stripped(text: &str) -> &str {
    text.trim_matches(|c: char| c == '\0' || c.is_ascii_whitespace())
}

/// A decimal number of at most `max`, as written to a file.
pub fn number(text: &str, max: u32) -> Option<u32> {
    let text = stripped(text);
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|n| digits && *n <= max)
}

/// Makes an enum with a word for each value.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$value_doc:meta])* $value:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $name { $($(#[$value_doc])* $value,)* }
        impl Choice for $name {
            const ALL: &'static [($name, &'static str)] = &[$(($name::$value, $word)),*];
        }
    };
}
pub(super) use words;
