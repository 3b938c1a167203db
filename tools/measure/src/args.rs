//! The plugin's arguments: `-plugin FILE,out=PATH,lines=on`.
use std::path::PathBuf;

/// What the plugin is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Args {
    /// The file to which a line is added for each measurement.
    pub out: PathBuf,
    /// Whether the lines that each CPU touches are kept.
    pub lines: bool,
    /// The model that sees what the guest does, if any.
    pub model: Option<ModelArgs>,
}

/// A model's arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelArgs {
    /// The core.
    pub preset: models::Preset,
    /// The file that is the guest's memory.
    pub ram: PathBuf,
    /// What the core does with pages that lie side by side.
    pub options: models::Options,
}

/// What each argument is, for the message about a wrong one.
const KNOWN: &str = "out=FILE (required), lines=on|off, model=CORE with ram=FILE, contiguous=on|off, \
                     coalescing=on|off";

impl Args {
    /// Parses arguments as QEMU passes them, `name=value` each.
    ///
    /// # Errors
    ///
    /// A sentence that says which argument is wrong, and which there are.
    pub fn parse<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Args, String> {
        let (mut out, mut lines, mut preset, mut ram) = (None, false, None, None);
        let mut options = models::Options::default();
        for word in words {
            match word.split_once('=') {
                Some(("out", path)) if !path.is_empty() => out = Some(PathBuf::from(path)),
                Some(("model", name)) => preset = Some(core(name)?),
                Some(("ram", path)) if !path.is_empty() => ram = Some(PathBuf::from(path)),
                Some(("contiguous", value)) => options.contiguous = switch("contiguous", value)?,
                Some(("coalescing", value)) => options.coalescing = switch("coalescing", value)?,
                Some(("lines", value)) => lines = switch("lines", value)?,
                _ => return Err(format!("{word:?} is no argument; there are {KNOWN}")),
            }
        }
        let out = out.ok_or_else(|| format!("out=FILE is missing; there are {KNOWN}"))?;
        let model = match (preset, ram) {
            (Some(preset), Some(ram)) => Some(ModelArgs {
                preset,
                ram,
                options,
            }),
            (None, None) => None,
            _ => return Err("model=CORE and ram=FILE need each other".to_owned()),
        };
        Ok(Args { out, lines, model })
    }
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
    fn models_have_a_core_and_memory() {
        let words = [
            "out=x",
            "model=cortex-a76",
            "ram=/dev/shm/m",
            "contiguous=off",
        ];
        let model = Args::parse(words).unwrap().model.unwrap();
        assert_eq!(model.preset, models::presets::CORTEX_A76);
        assert!(!model.options.contiguous && model.options.coalescing);
    }

    #[test]
    fn wrong_ones_are_named() {
        for (words, named) in [
            (&["lines=on"][..], "out=FILE is missing"),
            (&["out="], "\"out=\" is no argument"),
            (&["out=x", "lines=yes"], "on or off, not \"yes\""),
            (&["out=x", "line=on"], "\"line=on\" is no argument"),
            (&["out=x", "ram=/m"], "need each other"),
            (
                &["out=x", "model=z80", "ram=/m"],
                "no core \"z80\" is modelled; there are cortex-a72",
            ),
            (&["out=x", "lines"], "\"lines\" is no argument"),
        ] {
            let error = Args::parse(words.iter().copied()).unwrap_err();
            assert!(error.contains(named), "{error}");
        }
    }
}
