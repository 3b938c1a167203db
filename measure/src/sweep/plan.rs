//! What runs: every combination of the values of the settings, checked before anything is built.
use crate::bench::plan;
use std::fmt;
use tools::args::SweepArgs;
use tools::host::errors::UsageError;
use tools::host::words;

/// Words of the kernel's command line that are no switches, but choose what memory is made of.
const OTHERS: [&str; 2] = [THP_ANON, "transparent_hugepage"];
const THP_ANON: &str = "thp_anon";
/// What they take.
const ENABLED: [&str; 3] = ["always", "madvise", "never"];
const SIZE_ENABLED: [&str; 4] = ["always", "inherit", "madvise", "never"];
/// The sizes that `thp_anon` names.
const SIZES: [&str; 8] = ["16K", "32K", "64K", "128K", "256K", "512K", "1M", "2M"];

/// More runs than this need --yes.
const MANY: usize = 100;
/// How long a run takes at the least, in seconds: the boot of the machine.
const SHORTEST: usize = 2;

/// The values of one setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// A word of the kernel's command line.
    pub name: String,
    /// What stands behind its `=`.
    pub values: Vec<String>,
}

/// One value of every setting, and a number of CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Combination {
    /// Names and values, in the order of the command line.
    pub settings: Vec<(String, String)>,
    /// CPUs.
    pub smp: u32,
}

impl Combination {
    /// The words of the kernel's command line.
    pub fn words(&self) -> String {
        let pair = |(name, value): &(String, String)| format!("{name}={value}");
        self.settings.iter().map(pair).collect::<Vec<_>>().join(" ")
    }
}

impl fmt::Display for Combination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.words();
        let blank = if words.is_empty() { "" } else { " " };
        write!(f, "{words}{blank}smp={}", self.smp)
    }
}

/// Every combination, the last setting changing fastest.
pub fn combinations(args: &SweepArgs) -> Result<Vec<Combination>, UsageError> {
    let axes = axes(&args.set)?;
    once("--smp", &args.smp)?;
    let all = args.smp.iter().flat_map(|&smp| {
        let settings = product(&axes);
        settings
            .into_iter()
            .map(move |settings| Combination { settings, smp })
    });
    let all: Vec<_> = all.collect();
    let runs = all.len().saturating_mul(args.repeat as usize);
    if runs > MANY && !args.yes {
        let minutes = (runs * SHORTEST).div_ceil(60);
        return Err(UsageError(format!(
            "these are {runs} runs, each a boot: {minutes} minutes and more; --yes runs them all"
        )));
    }
    Ok(all)
}

/// The settings that `--set` names, each once.
fn axes(sets: &[String]) -> Result<Vec<Axis>, UsageError> {
    let axes = sets.iter().map(|set| axis(set));
    let axes = axes.collect::<Result<Vec<_>, _>>()?;
    let names: Vec<&str> = axes.iter().map(|axis| &*axis.name).collect();
    once("--set", &names)?;
    Ok(axes)
}

/// One setting.
fn axis(set: &str) -> Result<Axis, UsageError> {
    let (name, text) = plan::pair(set)?;
    plan::check_switch(name, &OTHERS)?;
    let option = format!("--set {name}");
    let values = if name == THP_ANON {
        let values = sizes_and_words(text);
        values.iter().try_for_each(|value| thp_anon(value))?;
        values
    } else if OTHERS.contains(&name) {
        words::check(&option, text.split(','), &ENABLED)?;
        text.split(',').map(str::to_owned).collect()
    } else {
        let values = plan::values_of(name, text)?;
        values.into_iter().map(str::to_owned).collect()
    };
    once(&option, &values)?;
    Ok(Axis {
        name: name.to_owned(),
        values,
    })
}

/// Values of `thp_anon`, which have commas inside, too, but none behind the word at their end.
fn sizes_and_words(text: &str) -> Vec<String> {
    let mut values: Vec<String> = Vec::new();
    let mut open = false;
    for piece in text.split(',') {
        match values.last_mut().filter(|_| open) {
            Some(value) => *value += &format!(",{piece}"),
            None => values.push(piece.to_owned()),
        }
        open = !piece.rsplit(';').next().unwrap_or_default().contains(':');
    }
    values
}

/// Checks one value of `thp_anon`: `16K-64K:always;128K,512K:inherit`.
fn thp_anon(value: &str) -> Result<(), UsageError> {
    const OPTION: &str = "--set thp_anon";
    for part in value.split(';') {
        let Some((sizes, word)) = part.split_once(':') else {
            let text = format!("{OPTION} {value} is not SIZES:WORD, like 16K-64K:always");
            return Err(UsageError(text));
        };
        words::check(OPTION, [word], &SIZE_ENABLED)?;
        for range in sizes.split(',') {
            let ends: Vec<&str> = range.splitn(2, '-').collect();
            words::check(OPTION, ends.iter().copied(), &SIZES)?;
            let place = |size: &str| SIZES.iter().position(|known| *known == size);
            if place(ends[0]) > ends.get(1).map_or(place(ends[0]), |end| place(end)) {
                let text = format!("{OPTION} {range} begins with the larger size");
                return Err(UsageError(text));
            }
        }
    }
    Ok(())
}

/// Refuses a list that has something twice.
fn once<T: PartialEq + fmt::Display>(option: &str, all: &[T]) -> Result<(), UsageError> {
    let twice = all
        .iter()
        .enumerate()
        .find(|(place, one)| all[..*place].contains(one));
    match twice {
        Some((_, one)) => Err(UsageError(format!("{option} has {one} twice"))),
        None => Ok(()),
    }
}

/// One value of each, in every way.
fn product(axes: &[Axis]) -> Vec<Vec<(String, String)>> {
    let mut all = vec![Vec::new()];
    for axis in axes {
        let with = |one: &Vec<(String, String)>, value: &String| {
            let mut more = one.clone();
            more.push((axis.name.clone(), value.clone()));
            more
        };
        let each = |one| axis.values.iter().map(move |value| with(one, value));
        all = all.iter().flat_map(each).collect();
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::has;
    use tools::args::{SweepArgs, options};

    fn all(line: &str) -> Vec<String> {
        let args = options::<SweepArgs>(&format!("run.sh sweep {line}"));
        let all = combinations(&args).unwrap();
        all.iter().map(Combination::to_string).collect()
    }

    fn refused(line: &str) -> String {
        let args = options::<SweepArgs>(&format!("run.sh sweep {line}"));
        combinations(&args).unwrap_err().0
    }

    #[test]
    fn every_combination_runs() {
        assert_eq!(all(""), ["smp=1"]);
        assert_eq!(
            all("--set fork=batch,share --set contpte=on,off --smp 1,2"),
            [
                "fork=batch contpte=on smp=1",
                "fork=batch contpte=off smp=1",
                "fork=share contpte=on smp=1",
                "fork=share contpte=off smp=1",
                "fork=batch contpte=on smp=2",
                "fork=batch contpte=off smp=2",
                "fork=share contpte=on smp=2",
                "fork=share contpte=off smp=2",
            ]
        );
    }

    #[test]
    fn folio_sizes_have_commas_of_their_own() {
        let sizes = |text: &str| axis(&format!("thp_anon={text}")).unwrap().values;
        assert_eq!(sizes("64K:always"), ["64K:always"]);
        assert_eq!(
            sizes("16K:always,64K,2M:always,16K-64K:never;128K,512K:inherit"),
            [
                "16K:always",
                "64K,2M:always",
                "16K-64K:never;128K,512K:inherit"
            ]
        );
        assert_eq!(all("--set transparent_hugepage=always,never").len(), 2);
    }

    #[test]
    fn wrong_ones_are_named() {
        for (line, says) in [
            ("--set frok=batch", "did you mean fork?"),
            ("--set thp_annon=16K:always", "did you mean thp_anon?"),
            ("--set fork=bacth", "did you mean batch?"),
            ("--set fork", "is not SWITCH=VALUE"),
            ("--set fork=batch,batch", "--set fork has batch twice"),
            ("--set fork=batch --set fork=share", "--set has fork twice"),
            ("--smp 1,2,1", "--smp has 1 twice"),
            ("--set transparent_hugepage=alwyas", "did you mean always?"),
            ("--set thp_anon=64K", "64K is not SIZES:WORD"),
            ("--set thp_anon=", "is not SIZES:WORD"),
            ("--set thp_anon=64K:on", "on is none of always,"),
            ("--set thp_anon=48K:always", "48K is none of 16K,"),
            ("--set thp_anon=64K-16K:always", "begins with the larger"),
        ] {
            let error = refused(line);
            assert!(error.contains(says), "{line}: {error}");
        }
    }

    #[test]
    fn many_runs_are_asked_for() {
        let line = "--set fork=per-pte,batch,share --set zap=per-pte,batch --smp 1,2,4 --repeat 10";
        let error = refused(line);
        assert!(error.starts_with("these are 180 runs, "), "{error}");
        has(&error, " 6 minutes and more; --yes");
        assert_eq!(all(&format!("{line} --yes")).len(), 18);
    }

    /// What is taken here, the kernel takes.
    #[test]
    fn the_kernel_knows_these_sizes_and_words() {
        use mm::thp::{Controls, boot};
        let controls = Controls::default();
        for size in SIZES {
            for word in SIZE_ENABLED {
                let value = format!("{size}-2M:{word}");
                assert!(thp_anon(&value).is_ok(), "{value}");
                assert!(boot::thp_anon(&controls, &value, true).is_ok(), "{value}");
            }
        }
        for word in ENABLED {
            assert!(
                boot::transparent_hugepage(&controls, word).is_ok(),
                "{word}"
            );
        }
        for value in ["8K:always", "4M:always", "64K:on", "64K-16K:never", "64K"] {
            assert!(thp_anon(value).is_err(), "{value}");
            assert!(boot::thp_anon(&controls, value, true).is_err(), "{value}");
        }
    }
}
