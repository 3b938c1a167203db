//! What there is to measure, as the program says: `bench --list`.
use crate::lines::objects;
use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// One operation and what it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op {
    /// Its name.
    pub name: String,
    /// The program that measures it.
    pub program: String,
    /// The program's arguments for it.
    pub args: String,
    /// The folio sizes in kB at which it is measured.
    pub sizes: Vec<u32>,
    /// Whether the program takes `--size`.
    pub folios: bool,
    /// Whether folios of 2 MiB are measured mapped by PMDs, too.
    pub by_pmd: bool,
    /// MiB that the machine needs.
    pub mib: u64,
    /// The numbers of CPUs with which it is measured.
    pub cpus: Vec<u32>,
    /// Whether it is measured when nothing is said.
    pub by_default: bool,
}

/// Reads a console on which the program listed its operations.
pub fn parse(console: &str) -> Result<Vec<Op>> {
    let lines = objects(console);
    let listed: Vec<Value> = lines.filter(|line| line["program"].is_string()).collect();
    ensure!(!listed.is_empty(), "the program lists no operations");
    listed
        .iter()
        .map(|line| op(line).with_context(|| format!("an operation without its needs: {line}")))
        .collect()
}

fn op(line: &Value) -> Option<Op> {
    let text = |name: &str| line[name].as_str().map(str::to_owned);
    let numbers = |name: &str| -> Option<Vec<u32>> {
        let number = |value: &Value| u32::try_from(value.as_u64()?).ok();
        line[name].as_array()?.iter().map(number).collect()
    };
    Some(Op {
        name: text("op")?,
        program: text("program")?,
        args: text("args")?,
        sizes: numbers("sizes_kb")?,
        folios: line["folios"].as_bool()?,
        by_pmd: line["mapped"].as_array()?.iter().any(|way| way == "pmd"),
        mib: line["mem_mib"].as_u64()?,
        cpus: numbers("cpus")?,
        by_default: line["default"].as_bool()?,
    })
}

/// For tests: a list of four.
#[cfg(test)]
pub fn sample() -> Vec<Op> {
    let line = |op: &str, rest: &str| {
        format!(
            "{{\"op\":\"{op}\",\"program\":\"bench\",\"args\":\"--op {op}\",\"mem_mib\":1024,\"folios\":true,{rest}}}\n"
        )
    };
    let text = line(
        "fault",
        r#""sizes_kb":[4,64,2048],"mapped":[],"cpus":[1],"default":true"#,
    ) + &line(
        "fork",
        r#""sizes_kb":[4,64,2048],"mapped":["pte","pmd"],"cpus":[1],"default":true"#,
    ) + &line(
        "cow-seq",
        r#""sizes_kb":[4,64],"mapped":[],"cpus":[1,4],"default":false"#,
    ) + r#"{"op":"gcflip","program":"gcflip","args":"256","mem_mib":3072,"folios":false,"sizes_kb":[64],"mapped":[],"cpus":[1],"default":false}"#;
    parse(&text).expect("a list")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_and_their_needs() {
        let ops = sample();
        let names: Vec<&str> = ops.iter().map(|op| op.name.as_str()).collect();
        assert_eq!(names, ["fault", "fork", "cow-seq", "gcflip"]);
        assert!(ops[1].by_pmd && !ops[0].by_pmd && ops[0].by_default);
        assert_eq!((ops[2].cpus.as_slice(), ops[3].mib), (&[1, 4][..], 3072));
        assert_eq!((ops[3].args.as_str(), ops[3].folios), ("256", false));
    }

    #[test]
    fn a_program_without_a_list() {
        assert!(parse("bench: what is --list?\n").is_err());
        assert!(parse("{\"op\":\"fork\",\"program\":\"bench\"}\n").is_err());
    }
}
