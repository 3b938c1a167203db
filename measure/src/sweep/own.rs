//! What the program itself printed: its lines that are JSON objects, and their values by name.
use crate::lines;
use serde_json::{Map, Value};

/// Fields that name a line among others, as in the lines of `bench`.
const NAMES: [&str; 4] = ["op", "name", "event", "folio_kb"];

/// The lines of a text that are JSON objects.
pub fn objects(text: &str) -> Vec<Map<String, Value>> {
    let lines = lines::objects(text);
    let fields = lines.filter_map(|line| line.as_object().cloned());
    fields.collect()
}

/// All values that are in the lines, by names like `own.FIELD`, `own.LINE.FIELD` when there are
/// several lines, and `own.FIELD.INNER` where one has values inside.
pub fn flat(lines: &[Map<String, Value>]) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    let labels = labels(lines);
    for (line, label) in lines.iter().zip(&labels) {
        let prefix = match lines.len() {
            1 => "own".to_owned(),
            _ => format!("own.{}", label.text),
        };
        let rest = line.iter();
        let rest = rest.filter(|(name, _)| !(label.named && NAMES.contains(&name.as_str())));
        for (name, value) in rest {
            flatten(format!("{prefix}.{name}"), value, &mut all);
        }
    }
    all
}

/// What tells a line from the others.
struct Label {
    text: String,
    /// It is made of the fields that name a line, not of its number.
    named: bool,
}

/// By the fields that name lines where no two have the same, else by number from 1 on.
fn labels(lines: &[Map<String, Value>]) -> Vec<Label> {
    let name = |line: &Map<String, Value>| {
        let values = NAMES.iter().filter_map(|name| line.get(*name));
        values.map(plain).collect::<Vec<_>>().join("/")
    };
    let names: Vec<String> = lines.iter().map(name).collect();
    let alone = |name: &String| names.iter().filter(|other| *other == name).count() == 1;
    let named = lines.len() > 1 && names.iter().all(|name| !name.is_empty() && alone(name));
    let label = |(number, text): (usize, &String)| Label {
        text: match named {
            true => text.clone(),
            false => (number + 1).to_string(),
        },
        named,
    };
    names.iter().enumerate().map(label).collect()
}

fn flatten(name: String, value: &Value, all: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => fields
            .iter()
            .for_each(|(field, value)| flatten(format!("{name}.{field}"), value, all)),
        Value::Array(items) if !items.is_empty() => items
            .iter()
            .enumerate()
            .for_each(|(place, value)| flatten(format!("{name}.{place}"), value, all)),
        value => all.push((name, value.clone())),
    }
}

/// A value as text: strings without their quotes.
pub fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let pair = |(name, value): (String, Value)| format!("{name}={}", plain(&value));
        flat(&objects(text)).into_iter().map(pair).collect()
    }

    #[test]
    fn one_line_needs_no_label() {
        assert_eq!(
            names("{\"op\":\"x\",\"ns\":{\"min\":1,\"all\":[2,true,null]},\"none\":{}}"),
            [
                "own.none={}",
                "own.ns.all.0=2",
                "own.ns.all.1=true",
                "own.ns.all.2=null",
                "own.ns.min=1",
                "own.op=x"
            ]
        );
    }

    #[test]
    fn several_lines_are_named_or_numbered() {
        let line =
            |op: &str, kb: u32| format!("{{\"op\":\"{op}\",\"folio_kb\":{kb},\"whole\":5}}\n");
        let named = names(&(line("fork", 4) + &line("fork", 64)));
        assert_eq!(named, ["own.fork/4.whole=5", "own.fork/64.whole=5"]);
        let numbered = names(&(line("fork", 4) + &line("fork", 4)));
        assert_eq!(numbered[..2], ["own.1.folio_kb=4", "own.1.op=fork"]);
        assert_eq!(names("{\"a\":1}\n{\"a\":2}"), ["own.1.a=1", "own.2.a=2"]);
        assert_eq!(
            names("{\"a\":1}\n{\"op\":\"x\"}"),
            ["own.1.a=1", "own.2.op=x"]
        );
    }
}
