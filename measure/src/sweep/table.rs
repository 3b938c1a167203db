//! What a person reads: what differs from the first combination, and what repeated runs do not
//! have in common.
use super::own::plain;
use super::row::{Column, Row, columns};
use crate::columns::{aligned, or_dash};
use crate::report::grouped;
use serde_json::Value;
use std::fmt::Write;

/// Combinations beside the first in one table: a line of a terminal has room for no more.
const BESIDE: usize = 3;
/// Characters of the change in a cell.
const CHANGE: usize = 8;

/// The combinations by number, and a table of what differs.
pub fn render(rows: &[Row]) -> String {
    let firsts: Vec<&Row> = rows.iter().filter(|row| row.repeat == 1).collect();
    let Some((first, others)) = firsts.split_first() else {
        return String::new();
    };
    let mut text = String::new();
    for (number, row) in firsts.iter().enumerate() {
        let _ = writeln!(text, "{:>4}  {}{}", number + 1, row.of, failure(row));
    }
    if others.is_empty() {
        return text + &alone(first);
    }
    let unit = match first.instructions {
        true => ", in guest instructions",
        false => "",
    };
    let _ = writeln!(text, "\nwhat differs from 1 (ns{unit}):");
    let columns = columns(rows);
    for (chunk, some) in others.chunks(BESIDE).enumerate() {
        let numbers = (2 + chunk * BESIDE..).take(some.len());
        text += &part(first, some, numbers, &columns);
    }
    text
}

/// How a run went wrong, if it did.
fn failure(row: &Row) -> String {
    match row.values.get("status") {
        Some(status) if !row.passed() && row.counted() => format!("  failed: status {status}"),
        Some(status) if !row.passed() => format!("  failed: {}", plain(status)),
        _ => String::new(),
    }
}

/// All that there is of one combination.
fn alone(row: &Row) -> String {
    let columns = columns(std::slice::from_ref(row)).into_iter();
    let rows = columns.filter_map(|column| {
        let cells = vec![shown(&row.value(&column)?)];
        Some(([vec![column.name], cells].concat(), String::new()))
    });
    format!("\n{}", aligned(&rows.collect::<Vec<_>>()))
}

/// The first combination and some others.
fn part(
    first: &Row,
    others: &[&Row],
    numbers: impl Iterator<Item = usize>,
    columns: &[Column],
) -> String {
    let differs = |column: &&Column| {
        let here = first.value(column);
        others.iter().any(|row| row.value(column) != here)
    };
    let columns: Vec<&Column> = columns.iter().filter(differs).collect();
    if columns.is_empty() {
        return "nothing\n".to_owned();
    }
    let heads = [String::new(), "1".to_owned()].into_iter();
    let heads = heads.chain(numbers.map(|number| number.to_string()));
    let mut rows = vec![(heads.collect(), String::new())];
    for column in columns {
        let here = first.value(column);
        let mut cells = vec![column.name.clone(), cell(&here)];
        cells.extend(others.iter().map(|row| {
            let value = row.value(column);
            cell(&value) + &format!("{:>CHANGE$}", change(&here, &value))
        }));
        rows.push((cells, String::new()));
    }
    aligned(&rows)
}

/// A value, or that there is none.
fn cell(value: &Option<Value>) -> String {
    or_dash(value.as_ref().map(shown))
}

/// A value, with commas between thousands.
fn shown(value: &Value) -> String {
    let text = plain(value);
    match value.is_i64() {
        true => grouped(&text),
        false => text,
    }
}

/// By how much a number changed, in percent of the first or, where that is much, by which factor;
/// or that it is the same.
fn change(first: &Option<Value>, other: &Option<Value>) -> String {
    let number = |value: &Option<Value>| value.as_ref().and_then(Value::as_f64);
    match (number(first), number(other)) {
        (Some(from), Some(to)) if from == to => "=".to_owned(),
        (Some(from), Some(to)) if from != 0.0 => match (to - from) / from.abs() * 100.0 {
            percent if percent < 1000.0 => format!("{percent:+.1}%"),
            _ => format!("x{:.0}", to / from),
        },
        _ => String::new(),
    }
}

/// What the runs of a combination do not have in common: a line for each value that differs, with
/// its least and its most where it is a number.
pub fn unequal(rows: &[Row]) -> Vec<String> {
    let columns = columns(rows);
    let firsts = rows.iter().filter(|row| row.repeat == 1);
    let mut lines = Vec::new();
    for first in firsts {
        let again: Vec<&Row> = rows.iter().filter(|row| row.of == first.of).collect();
        for column in &columns {
            let values: Vec<_> = again.iter().map(|row| row.value(column)).collect();
            if values.iter().any(|value| *value != values[0]) {
                lines.push(format!("{}: {} {}", first.of, column.name, spread(&values)));
            }
        }
    }
    lines
}

/// The values of a column that differ.
fn spread(values: &[Option<Value>]) -> String {
    let numbers: Vec<i64> = values
        .iter()
        .filter_map(|value| value.as_ref()?.as_i64())
        .collect();
    if let (Some(least), Some(most)) = (numbers.iter().min(), numbers.iter().max())
        && numbers.len() == values.len()
    {
        let shown = |number: &i64| shown(&(*number).into());
        return format!("is {} to {}", shown(least), shown(most));
    }
    let text = |value: &Option<Value>| value.as_ref().map_or("nothing".to_owned(), plain);
    let texts: Vec<String> = values.iter().map(text).collect();
    format!("is {}", texts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::super::row::tests::{counted, row};
    use super::*;
    use crate::testing::{has, lacks};
    use tools::machine::guest::End;

    fn run(fork: &str, repeat: u32, ns: u64, counters: &str) -> Row {
        row(fork, repeat, &counted(0, ns, counters), End::Status(0))
    }

    #[test]
    fn what_is_the_same_everywhere_is_left_out() {
        let more = "\"forks\":1,\"page_tables_shared\":3,\"pgfault\":100";
        let rows = [
            run("batch", 1, 2_000_000, "\"forks\":1,\"pgfault\":100"),
            run("share", 1, 1_000_000, more),
        ];
        let text = render(&rows);
        assert!(
            text.starts_with("   1  fork=batch smp=1\n   2  fork=share smp=1\n"),
            "{text}"
        );
        has(&text, "2,000,000");
        has(&text, "1,000,000  -50.0%");
        has(&text, "page_tables_shared");
        lacks(&text, "forks");
        lacks(&text, "pgfault");
        let same = [run("batch", 1, 5, ""), run("share", 1, 5, "")];
        assert!(render(&same).ends_with("nothing\n"));
    }

    #[test]
    fn many_combinations_take_several_tables() {
        let forks = ["a", "b", "c", "d", "e"].iter().zip(1..);
        let rows: Vec<Row> = forks.map(|(fork, ns)| run(fork, 1, ns, "")).collect();
        let text = render(&rows);
        assert_eq!(text.matches("\nns ").count(), 2, "{text}");
        assert!(text.lines().all(|line| line.len() <= 90), "{text}");
    }

    #[test]
    fn a_failed_run_is_marked() {
        let killed = counted(139, 5, "\"pgfault\":1");
        let rows = [
            run("batch", 1, 5, "\"pgfault\":1"),
            row("share", 1, &killed, End::Status(0)),
            row("per-pte", 1, "", End::Timeout),
        ];
        let text = render(&rows);
        has(&text, "fork=share smp=1  failed: status 139\n");
        has(&text, "fork=per-pte smp=1  failed: timeout\n");
    }

    #[test]
    fn one_combination_is_shown_whole() {
        let text = render(&[run("batch", 1, 5, "\"pgfault\":1234")]);
        has(&text, "pgfault");
        has(&text, "1,234");
    }

    #[test]
    fn repeated_runs_are_equal_or_named() {
        let mut rows = vec![
            run("batch", 1, 5, "\"pgfault\":1"),
            run("batch", 2, 5, "\"pgfault\":1"),
            run("share", 1, 5, ""),
        ];
        assert!(unequal(&rows).is_empty());
        rows.push(run("share", 2, 7, "\"pgfault\":1"));
        assert_eq!(
            unequal(&rows),
            [
                "fork=share smp=1: ns is 5 to 7",
                "fork=share smp=1: pgfault is 0 to 1"
            ]
        );
        rows.push(row("batch", 3, "", End::Timeout));
        let lines = unequal(&rows);
        assert!(lines[0].ends_with("status is 0, 0, timeout"), "{lines:?}");
    }

    #[test]
    fn changes() {
        let of = |from: i64, to: i64| change(&Some(from.into()), &Some(to.into()));
        assert_eq!(
            (of(4, 4), of(0, 0), of(0, 5)),
            ("=".into(), "=".into(), "".into())
        );
        assert_eq!((of(4, 3), of(-4, -2)), ("-25.0%".into(), "+50.0%".into()));
        assert_eq!((of(4, 43), of(4, 400)), ("+975.0%".into(), "x100".into()));
        assert_eq!(change(&Some(1.into()), &None), "");
    }
}
