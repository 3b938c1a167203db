//! The kernel command line: the kernel's own words, and what is passed on to init as in Linux:
//! unknown words go to its environment when they are `NAME=value`, to its arguments otherwise; all
//! words after `--` are arguments.

use alloc::string::String;
use alloc::vec::Vec;

/// What the command line said.
#[derive(Debug)]
pub struct CommandLine {
    /// As it was given, for /proc/cmdline.
    pub text: String,
    /// `init=PATH`: the first program, `/init` by default.
    pub init: String,
    /// Arguments of init, without its own name.
    pub init_args: Vec<String>,
    /// Environment of init; `TERM=linux` unless the line has another.
    pub init_env: Vec<String>,
    /// `norandmaps`: no address space randomisation.
    pub norandmaps: bool,
    /// `loglevel=N` (0 to 8), or 4 with `quiet`.
    pub loglevel: u8,
    /// `maxcpus=N`: how many CPUs may run, the first included; 0 is 1.
    pub max_cpus: u32,
    /// `quire.noinput`: the terminal is at its end of input from the start.
    pub no_input: bool,
    /// `quire.window=ROWSxCOLUMNS`: the size of the terminal on the serial line.
    pub window: Option<[u16; 2]>,
    /// `quire.crash=panic|null|stack|hang`: fail on purpose, to see the report.
    pub crash: Option<String>,
    /// `quire.least_cpu=N`: CPU N pretends to have no feature that the kernel can do without; 0 for
    /// none.
    pub least_cpu: usize,
    /// `quire.heap_fail=K`: PID 1's system calls find no memory from their K-th heap allocation on,
    /// see [`the kernel's `heap::fail``].
    pub heap_fail: u32,
    /// `transparent_hugepage=`, `thp_anon=`, `hugepages=`, `contpte=` and their values, in order:
    /// see the kernel's `thp`.
    pub memory: Vec<Setting>,
    /// `quire.test=`, `quire.test.skip=` and others: see `ktest::Plan`.
    pub tests: Vec<Setting>,
    /// Unknown words; boot reports them.
    pub unknown: Vec<String>,
}

/// A word `NAME=value`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting {
    /// Before the equals sign.
    pub name: String,
    /// After it.
    pub value: String,
}

/// Parses a command line. `is_switch`: whether a name is one of the memory manager's switches.
pub fn parse(text: &str, is_switch: impl Fn(&str) -> bool) -> CommandLine {
    let mut line = CommandLine {
        text: text.into(),
        init: "/init".into(),
        init_args: Vec::new(),
        init_env: Vec::from(["HOME=/".into(), "TERM=linux".into()]),
        norandmaps: false,
        loglevel: 7,
        max_cpus: u32::MAX,
        no_input: false,
        window: None,
        crash: None,
        least_cpu: 0,
        heap_fail: 0,
        memory: Vec::new(),
        tests: Vec::new(),
        unknown: Vec::new(),
    };
    // Quotes are no part of a word.
    let mut words = words(text).map(|word| word.replace('"', ""));
    for word in words.by_ref().take_while(|word| word != "--") {
        line.take(&word, &is_switch);
    }
    line.init_args.extend(words);
    line
}

/// Words between blanks; double quotes keep blanks in a word.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    let ends_word = move |c: char| {
        quoted ^= c == '"';
        c.is_ascii_whitespace() && !quoted
    };
    text.split(ends_word).filter(|word| !word.is_empty())
}

/// The words `NAME=value` before `--`, where there is no heap yet; in quotes it is another word.
pub fn early(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let ours = words(text).take_while(|word| *word != "--");
    ours.filter_map(|word| word.split_once('='))
}

/// `zram=SIZE`: bytes of private memory that may be swapped, in K, M or G; 0 without it, or if it
/// is no size.
pub fn zram(text: &str) -> u64 {
    let size = early(text).filter(|(name, _)| *name == "zram").last();
    size.and_then(|(_, size)| bytes(size)).unwrap_or(0)
}

/// The bytes of `512M`.
pub fn bytes(size: &str) -> Option<u64> {
    let digits = size.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &size[digits.len()..] {
        "" => 0,
        "k" | "K" => 10,
        "m" | "M" => 20,
        "g" | "G" => 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// Rows and columns of `24x80`.
fn window(size: &str) -> Option<[u16; 2]> {
    let (rows, columns) = size.split_once('x')?;
    Some([rows.parse().ok()?, columns.parse().ok()?])
}

impl Setting {
    fn new(name: &str, value: &str) -> Setting {
        Setting {
            name: name.into(),
            value: value.into(),
        }
    }
}

impl CommandLine {
    /// A variable of init's environment, instead of one of the same name.
    fn set_env(&mut self, name: &str, word: &str) {
        let same = |old: &String| old.split('=').next() == Some(name);
        self.init_env.retain(|old| !same(old));
        self.init_env.push(word.into());
    }

    fn take(&mut self, word: &str, is_switch: &impl Fn(&str) -> bool) {
        let (name, value) = word
            .split_once('=')
            .map_or((word, None), |(name, value)| (name, Some(value)));
        match (name, value) {
            ("init", Some(path)) => self.init = path.into(),
            // Read before there was a heap.
            ("zram", Some(size)) if bytes(size).is_some() => {}
            ("norandmaps", None) => self.norandmaps = true,
            ("quiet", None) => self.loglevel = 4,
            ("loglevel", Some(n)) if n.parse::<u8>().is_ok_and(|n| n <= 8) => {
                self.loglevel = n.parse().unwrap_or(7)
            }
            ("maxcpus", Some(n)) if n.parse::<u32>().is_ok() => {
                self.max_cpus = n.parse().unwrap_or(u32::MAX)
            }
            ("quire.test" | "quire.test.skip" | "quire.test.after" | "quire.test.list", value) => {
                self.tests.push(Setting::new(name, value.unwrap_or("")))
            }
            ("quire.noinput", None) => self.no_input = true,
            ("quire.window", Some(size)) if let Some(size) = window(size) => {
                self.window = Some(size)
            }
            ("quire.crash", Some(how)) => self.crash = Some(how.into()),
            ("quire.least_cpu", Some(n)) if n.parse::<usize>().is_ok() => {
                self.least_cpu = n.parse().unwrap_or(0)
            }
            ("quire.heap_fail", Some(n)) if n.parse::<u32>().is_ok() => {
                self.heap_fail = n.parse().unwrap_or(0)
            }
            ("transparent_hugepage" | "thp_anon" | "hugepages" | "hugepagesz", Some(value)) => {
                self.memory.push(Setting::new(name, value))
            }
            (name, Some(value)) if is_switch(name) => self.memory.push(Setting::new(name, value)),
            ("TERM", Some(_)) => self.set_env(name, word),
            // Loaders add these; they say nothing to us.
            ("console" | "earlycon" | "root" | "BOOT_IMAGE" | "initrd" | "panic", _) => {}
            (name, value) => {
                self.unknown.push(word.into());
                // As in Linux: a word with a dot belongs to a module, not to init.
                match value {
                    _ if name.contains('.') => {}
                    Some(_) => self.set_env(name, word),
                    None => self.init_args.push(word.into()),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_rows_and_columns() {
        let window = |text| parse(text, |_| false).window;
        assert_eq!(window("quiet quire.window=50x132"), Some([50, 132]));
        assert_eq!(window("quiet"), None);
        let wrong = parse("quire.window=50", |_| false);
        assert_eq!((wrong.window, wrong.unknown.len()), (None, 1));
    }

    fn line(text: &str) -> CommandLine {
        parse(text, |name| name == "contpte")
    }

    #[test]
    fn an_empty_line_has_the_defaults() {
        let line = line("");
        assert_eq!((line.init.as_str(), line.loglevel), ("/init", 7));
        assert_eq!(line.init_env, ["HOME=/", "TERM=linux"]);
        assert!(line.init_args.is_empty() && line.unknown.is_empty());
    }

    #[test]
    fn quotes_keep_blanks_in_a_word() {
        let line = line(r#"init=/a"b c"d  -- "x y" "" z"#);
        assert_eq!(line.init, "/ab cd");
        assert_eq!(line.init_args, ["x y", "", "z"]);
    }

    #[test]
    fn before_there_is_a_heap() {
        let early: Vec<_> = early("quiet account=per-page \"a=b c\" -- account=total").collect();
        assert_eq!(early, [("account", "per-page"), ("\"a", "b c\"")]);
        for (text, bytes) in [
            ("zram=512M", 512 << 20),
            ("zram=1G zram=64k", 64 << 10),
            ("zram=4096", 4096),
            ("zram=many", 0),
            ("zram=1T", 0),
            ("zram=99999999999G", 0),
            ("quiet -- zram=1M", 0),
        ] {
            assert_eq!(zram(text), bytes, "{text}");
        }
        assert_eq!(line("zram=1T").unknown, ["zram=1T"]);
    }

    #[test]
    fn words_of_others_go_to_init_as_in_linux() {
        let line = line("A=1 single mod.x=2 mod.y A=2 TERM=vt100 console=ttyS0");
        assert_eq!(line.init_env, ["HOME=/", "A=2", "TERM=vt100"]);
        assert_eq!(line.init_args, ["single"]);
        assert_eq!(line.unknown, ["A=1", "single", "mod.x=2", "mod.y", "A=2"]);
    }

    #[test]
    fn what_is_for_memory_stays_in_order() {
        let line = line(
            "contpte=off thp_anon=64K:always fork=share transparent_hugepage=never hugepagesz=2M hugepages=3",
        );
        let names: Vec<&str> = line
            .memory
            .iter()
            .map(|setting| setting.name.as_str())
            .collect();
        let expected = [
            "contpte",
            "thp_anon",
            "transparent_hugepage",
            "hugepagesz",
            "hugepages",
        ];
        assert_eq!(names, expected);
        assert_eq!(line.unknown, ["fork=share"]);
    }

    #[test]
    fn numbers_out_of_range_are_unknown_words() {
        let line = line(
            "loglevel=9 quire.heap_fail=x loglevel=4 quire.heap_fail=3 maxcpus=-1 quire.least_cpu=2",
        );
        assert_eq!((line.loglevel, line.heap_fail, line.least_cpu), (4, 3, 2));
        assert_eq!(line.max_cpus, u32::MAX);
        assert_eq!(
            line.unknown,
            ["loglevel=9", "quire.heap_fail=x", "maxcpus=-1"]
        );
    }

    #[test]
    fn fewer_cpus() {
        let most = |text| line(text).max_cpus;
        assert_eq!(["maxcpus=0", "maxcpus=4", ""].map(most), [0, 4, u32::MAX]);
    }

    #[test]
    fn nothing_behind_two_dashes_is_ours() {
        let line = line("quiet -- quiet norandmaps --");
        assert_eq!((line.loglevel, line.norandmaps), (4, false));
        assert_eq!(line.init_args, ["quiet", "norandmaps", "--"]);
    }
}
