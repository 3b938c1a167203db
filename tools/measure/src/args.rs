//! The plugin's arguments: `-plugin FILE,out=PATH,lines=on`.
use std::path::PathBuf;

/// What the plugin is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Args {
    /// The file to which a line is added for each measurement.
    pub out: PathBuf,
    /// Whether the lines that each CPU touches are kept.
    pub lines: bool,
}

/// What each argument is, for the message about a wrong one.
const KNOWN: &str = "out=FILE (required), lines=on|off";

impl Args {
    /// Parses arguments as QEMU passes them, `name=value` each.
    ///
    /// # Errors
    ///
    /// A sentence that says which argument is wrong, and which there are.
    pub fn parse<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Args, String> {
        let (mut out, mut lines) = (None, false);
        for word in words {
            match word.split_once('=') {
                Some(("out", path)) if !path.is_empty() => out = Some(PathBuf::from(path)),
                Some(("lines", value)) => lines = switch("lines", value)?,
                _ => return Err(format!("{word:?} is no argument; there are {KNOWN}")),
            }
        }
        let out = out.ok_or_else(|| format!("out=FILE is missing; there are {KNOWN}"))?;
        Ok(Args { out, lines })
    }
}

fn switch(name: &str, value: &str) -> Result<bool, String> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("{name} is on or off, not {value:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments() {
        let parsed = Args::parse(["out=/t/a b=c", "lines=on"]).unwrap();
        assert_eq!(parsed.out, PathBuf::from("/t/a b=c"));
        assert!(parsed.lines);
        assert!(!Args::parse(["out=x"]).unwrap().lines);
    }

    #[test]
    fn wrong_ones_are_named() {
        for (words, named) in [
            (&["lines=on"][..], "out=FILE is missing"),
            (&["out="], "\"out=\" is no argument"),
            (&["out=x", "lines=yes"], "on or off, not \"yes\""),
            (&["out=x", "line=on"], "\"line=on\" is no argument"),
            (&["out=x", "lines"], "\"lines\" is no argument"),
        ] {
            let error = Args::parse(words.iter().copied()).unwrap_err();
            assert!(error.contains(named), "{error}");
        }
    }
}
