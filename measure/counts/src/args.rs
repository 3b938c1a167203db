//! The plugin's arguments: `-plugin FILE,out=PATH,lines=each`.
use std::path::PathBuf;

/// What the plugin is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Args {
    /// The file to which a line is added for each measurement.
    pub out: PathBuf,
    /// What is said of the lines that each CPU touches.
    pub lines: Lines,
    /// The file that is the guest's memory, to walk page tables in.
    pub ram: Option<PathBuf>,
    /// The core of the model that sees what the guest does, if any.
    pub model: Option<models::Preset>,
    /// The file to which what programs do to pages is added ([`crate::pages`]), and of how many
    /// accesses a window is.
    pub pages: Option<(PathBuf, u64)>,
}

/// What is said of the lines that a CPU touches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lines {
    /// Nothing; they are not kept.
    #[default]
    Off,
    /// How many they are.
    Count,
    /// Which they are, with what touched each.
    Each,
}

impl Lines {
    /// All, by the value of the argument.
    pub const ALL: [(&'static str, Lines); 3] = [
        ("off", Lines::Off),
        ("count", Lines::Count),
        ("each", Lines::Each),
    ];

    /// The value of the argument.
    pub fn word(self) -> &'static str {
        Lines::ALL[self as usize].0
    }
}

/// What each argument is, for the message about a wrong one.
const KNOWN: &str =
    "out=FILE (required), lines=off|count|each, ram=FILE, model=CORE, pages=WINDOW:FILE";

impl Args {
    /// Parses arguments as QEMU passes them, `name=value` each.
    ///
    /// # Errors
    ///
    /// A sentence that says which argument is wrong, and which there are.
    pub fn parse<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Args, String> {
        let (mut out, mut lines, mut model, mut ram) = (None, Lines::Off, None, None);
        let mut pages = None;
        for word in words {
            match word.split_once('=') {
                Some(("out", path)) if !path.is_empty() => out = Some(PathBuf::from(path)),
                Some(("model", name)) => model = Some(core(name)?),
                Some(("ram", path)) if !path.is_empty() => ram = Some(PathBuf::from(path)),
                Some(("pages", value)) => pages = Some(windows(value)?),
                Some(("lines", value)) => lines = lines_named(value)?,
                _ => return Err(format!("{word:?} is no argument; there are {KNOWN}")),
            }
        }
        let out = out.ok_or_else(|| format!("out=FILE is missing; there are {KNOWN}"))?;
        if model.is_some() && ram.is_none() {
            return Err("model=CORE needs ram=FILE, to walk page tables in".to_owned());
        }
        Ok(Args {
            out,
            lines,
            ram,
            model,
            pages,
        })
    }
}

fn windows(value: &str) -> Result<(PathBuf, u64), String> {
    let parts = value.split_once(':');
    let parts = parts.and_then(|(window, file)| Some((PathBuf::from(file), window.parse().ok()?)));
    let parts = parts.filter(|(_, window)| *window > 0);
    parts.ok_or_else(|| format!("pages is WINDOW:FILE, not {value:?}"))
}

fn core(name: &str) -> Result<models::Preset, String> {
    models::presets::named(name).ok_or_else(|| {
        let names: Vec<&str> = models::presets::ALL.iter().map(|core| core.name).collect();
        format!(
            "no core {name:?} is modelled; there are {}",
            names.join(", ")
        )
    })
}

fn lines_named(word: &str) -> Result<Lines, String> {
    let known = Lines::ALL.into_iter().find(|(name, _)| *name == word);
    known
        .map(|(_, lines)| lines)
        .ok_or_else(|| format!("lines is off, count or each, not {word:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments() {
        let parsed = Args::parse(["out=/t/a b=c", "lines=each"]).unwrap();
        assert_eq!(parsed.out, PathBuf::from("/t/a b=c"));
        assert_eq!(parsed.lines, Lines::Each);
        assert_eq!(Args::parse(["out=x"]).unwrap().lines, Lines::Off);
        let pages = Args::parse(["out=x", "pages=9:/t/p:q"]).unwrap().pages;
        assert_eq!(pages, Some((PathBuf::from("/t/p:q"), 9)));
        for (word, lines) in Lines::ALL {
            assert_eq!(lines.word(), word);
        }
    }

    #[test]
    fn models_have_a_core_and_memory() {
        let words = ["out=x", "model=cortex-a76", "ram=/dev/shm/m"];
        let model = Args::parse(words).unwrap().model;
        assert_eq!(model, Some(models::presets::CORTEX_A76));
    }

    #[test]
    fn wrong_ones_are_named() {
        for (words, named) in [
            (&["lines=each"][..], "out=FILE is missing"),
            (&["out="], "\"out=\" is no argument"),
            (&["out=x", "lines=on"], "off, count or each, not \"on\""),
            (&["out=x", "line=on"], "\"line=on\" is no argument"),
            (&["out=x", "model=zen4"], "model=CORE needs ram=FILE"),
            (
                &["out=x", "model=z80", "ram=/m"],
                "no core \"z80\" is modelled; there are cortex-a72",
            ),
            (&["out=x", "pages=0:f"], "WINDOW:FILE, not \"0:f\""),
            (&["out=x", "lines"], "\"lines\" is no argument"),
        ] {
            let error = Args::parse(words.iter().copied()).unwrap_err();
            assert!(error.contains(named), "{error}");
        }
    }
}
