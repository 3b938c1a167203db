//! One run: what it was, how it ended and what it cost.
use super::own;
use super::plan::Combination;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use tools::host::arch::Arch;
use tools::machine::guest::End;

/// The mark of the line of the program `counters`.
const COUNTED: &str = "counted";
/// Its fields that are no counters, in the order of the columns.
pub const FIGURES: [&str; 3] = ["status", "ns", "max_rss_kb"];
/// Where its counters are.
const COUNTERS: &str = "counters";

/// One run.
#[derive(Clone, Debug)]
pub struct Row {
    /// The machine.
    pub arch: Arch,
    /// The settings.
    pub of: Combination,
    /// Which of several runs with these settings, from 1 on.
    pub repeat: u32,
    /// What is known of it: all values by the names of the columns.
    pub values: BTreeMap<String, Value>,
    /// The names of its counters.
    pub counters: Vec<String>,
    /// The program's own lines.
    own: Vec<Map<String, Value>>,
    /// Whether the clock counted instructions.
    pub instructions: bool,
}

impl Row {
    /// From what the machine printed, and how it ended.
    pub fn new(arch: Arch, of: &Combination, repeat: u32, text: &str, end: End) -> Row {
        let mut own = own::objects(text);
        // The last: the program itself may be `counters`.
        let place = own
            .iter()
            .rposition(|line| line.get(COUNTED) == Some(&Value::Bool(true)));
        let counted = place.map(|place| own.remove(place)).unwrap_or_default();
        let mut values: BTreeMap<_, _> = own::flat(&own).into_iter().collect();
        for name in FIGURES {
            let value = counted.get(name).cloned();
            values.extend(value.map(|value| (name.to_owned(), value)));
        }
        if place.is_none() {
            values.insert(FIGURES[0].to_owned(), ended(end).into());
        }
        let none = Map::new();
        let moved = counted.get(COUNTERS).and_then(Value::as_object);
        let moved = moved.unwrap_or(&none);
        values.extend(moved.iter().map(|(name, by)| (name.clone(), by.clone())));
        Row {
            arch,
            of: of.clone(),
            repeat,
            values,
            counters: moved.keys().cloned().collect(),
            own,
            instructions: counted.get("instructions") == Some(&Value::Bool(true)),
        }
    }

    /// Whether the program ran and ended with 0.
    pub fn passed(&self) -> bool {
        self.values.get(FIGURES[0]).and_then(Value::as_i64) == Some(0)
    }

    /// Whether the program was run to its end, whatever its status.
    pub fn counted(&self) -> bool {
        self.values.contains_key(FIGURES[1])
    }

    /// The value of a column. A counter that a run did not move moved by 0.
    pub fn value(&self, column: &Column) -> Option<Value> {
        let zero = || (column.counter && self.counted()).then(|| json!(0));
        self.values.get(&column.name).cloned().or_else(zero)
    }

    /// As a JSON line.
    pub fn json(&self) -> Value {
        let settings = self.of.settings.iter();
        let settings: Map<_, _> = settings
            .map(|(name, value)| (name.clone(), json!(value)))
            .collect();
        let counters = self.counters.iter();
        let counters: Map<_, _> = counters
            .map(|name| (name.clone(), self.values[name].clone()))
            .collect();
        let mut line = json!({
            "kernel": "quire",
            "arch": self.arch.name(),
            "settings": settings,
            "smp": self.of.smp,
            "repeat": self.repeat,
            "instructions": self.instructions,
            "counters": counters,
            "own": self.own,
        });
        for name in FIGURES {
            if let Some(value) = self.values.get(name) {
                line[name] = value.clone();
            }
        }
        line
    }
}

/// What the machine printed without the line of `counters`, which says nothing to a person.
pub fn said(text: &str) -> String {
    let mark = format!("{{\"{COUNTED}\":true,");
    let lines = text.lines().filter(|line| !line.starts_with(&mark));
    let text = lines.collect::<Vec<_>>().join("\n");
    match text.trim_end() {
        "" => String::new(),
        text => format!("{text}\n"),
    }
}

/// Why there is no line of `counted`.
fn ended(end: End) -> String {
    match end {
        End::Status(101) => "kernel panic".to_owned(),
        End::Status(126 | 127) => "not started".to_owned(),
        End::Status(status) => format!("machine ended with {status}"),
        End::Reset => "machine reset".to_owned(),
        End::Timeout => "timeout".to_owned(),
        End::Failed => "QEMU ended".to_owned(),
    }
}

/// A column: a value that some run has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its heading.
    pub name: String,
    /// Whether it is a counter.
    pub counter: bool,
}

/// The columns of all rows: the three figures, every counter that moved in any run, the program's
/// own values.
pub fn columns(rows: &[Row]) -> Vec<Column> {
    let mut columns: Vec<Column> = Vec::new();
    let mut add = |name: &str, counter| {
        let column = Column {
            name: name.to_owned(),
            counter,
        };
        if !columns.contains(&column) {
            columns.push(column);
        }
    };
    FIGURES.iter().for_each(|name| add(name, false));
    let mut counters: Vec<&String> = rows.iter().flat_map(|row| &row.counters).collect();
    counters.sort();
    counters.iter().for_each(|name| add(name, true));
    for row in rows {
        for (name, _) in own::flat(&row.own) {
            add(&name, false);
        }
    }
    columns
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// For the tests of the others, too: a run with `fork=FORK`.
    pub fn row(fork: &str, repeat: u32, text: &str, end: End) -> Row {
        let of = Combination {
            settings: vec![("fork".to_owned(), fork.to_owned())],
            smp: 1,
        };
        Row::new(Arch::X86_64, &of, repeat, text, end)
    }

    /// What `counters` prints.
    pub fn counted(status: u32, ns: u64, counters: &str) -> String {
        format!(
            "{{\"counted\":true,\"status\":{status},\"ns\":{ns},\"instructions\":true,\
             \"max_rss_kb\":8,\"counters\":{{{counters}}}}}\n"
        )
    }

    #[test]
    fn a_run_has_its_figures_its_counters_and_its_own_lines() {
        let text = format!(
            "hello\n{{\"mean\":2.5}}\n{}",
            counted(0, 7, "\"pgfault\":3")
        );
        let row = row("batch", 1, &text, End::Status(0));
        assert!(row.passed() && row.counted() && row.instructions);
        let value = |name: &str| row.values[name].clone();
        assert_eq!((value("ns"), value("pgfault")), (json!(7), json!(3)));
        assert_eq!(value("own.mean"), json!(2.5));
        assert_eq!(
            row.json(),
            json!({"kernel": "quire", "arch": "x86_64", "settings": {"fork": "batch"}, "smp": 1,
                   "repeat": 1, "instructions": true, "status": 0, "ns": 7, "max_rss_kb": 8,
                   "counters": {"pgfault": 3}, "own": [{"mean": 2.5}]})
        );
    }

    #[test]
    fn a_run_that_failed_says_how() {
        let failed = row("batch", 1, &counted(139, 7, ""), End::Status(0));
        assert!(!failed.passed() && failed.counted());
        for (end, says) in [
            (End::Status(101), "kernel panic"),
            (End::Status(127), "not started"),
            (End::Timeout, "timeout"),
        ] {
            let row = row("batch", 1, "{\"half\":1}\n", end);
            assert!(!row.passed() && !row.counted());
            assert_eq!(row.values["status"], says);
            assert_eq!(row.values["own.half"], 1);
        }
    }

    #[test]
    fn a_person_reads_what_the_program_said() {
        let text = format!("why\n\n{}", counted(1, 7, ""));
        assert_eq!(said(&text), "why\n");
        assert_eq!(said(&counted(1, 7, "")), "");
    }

    #[test]
    fn columns_are_those_of_all_runs() {
        let run = |fork, own, counters| {
            let text = format!("{own}\n{}", counted(0, 7, counters));
            row(fork, 1, &text, End::Status(0))
        };
        let rows = [
            run("batch", "{\"z\":1}", "\"pgfree\":1"),
            run("share", "{\"a\":1}", "\"forks\":-1"),
            row("share", 2, "", End::Timeout),
        ];
        let columns = columns(&rows);
        let names: Vec<&str> = columns.iter().map(|column| &*column.name).collect();
        let expected = "status ns max_rss_kb forks pgfree own.z own.a";
        assert_eq!(names.join(" "), expected);
        let forks = &columns[3];
        let values = rows.each_ref().map(|row| row.value(forks));
        assert_eq!(values, [Some(json!(0)), Some(json!(-1)), None]);
    }
}
