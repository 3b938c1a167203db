//! What there is to measure, as the program says: `bench --list`.
use crate::lines::objects;
use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// One operation and what it needs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Op {
    /// Its name.
    #[serde(rename = "op")]
    pub name: String,
    /// The program that measures it.
    pub program: String,
    /// The program's arguments for it.
    pub args: String,
    /// The folio sizes in kB at which it is measured.
    #[serde(rename = "sizes_kb")]
    pub sizes: Vec<u32>,
    /// Whether the program takes `--size`.
    pub folios: bool,
    /// The ways in which folios of 2 MiB are mapped, if that matters: `pte`, `pmd`.
    pub mapped: Vec<String>,
    /// MiB that the machine needs.
    #[serde(rename = "mem_mib")]
    pub mib: u64,
    /// The numbers of CPUs with which it is measured.
    pub cpus: Vec<u32>,
    /// Whether it is measured when nothing is said.
    #[serde(rename = "default")]
    pub by_default: bool,
    /// Whether it needs a swap area.
    #[serde(default)]
    pub swaps: bool,
}

impl Op {
    /// Whether folios of 2 MiB are measured mapped by PMDs, too.
    pub fn by_pmd(&self) -> bool {
        self.mapped.iter().any(|way| way == "pmd")
    }
}

/// Reads a console on which the program listed its operations.
pub fn parse(console: &str) -> Result<Vec<Op>> {
    let listed = objects(console).filter(|line| line["program"].is_string());
    let ops = listed.map(|line| serde_json::from_value(line).context("an operation's needs"));
    let ops = ops.collect::<Result<Vec<Op>>>()?;
    ensure!(!ops.is_empty(), "the program lists no operations");
    Ok(ops)
}

/// For tests: a list of five.
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
    ) + &line(
        "pageout",
        r#""sizes_kb":[4],"mapped":[],"cpus":[1],"default":false,"swaps":true"#,
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
        assert_eq!(names, ["fault", "fork", "cow-seq", "pageout", "gcflip"]);
        assert!(ops[1].by_pmd() && !ops[0].by_pmd() && ops[0].by_default);
        assert_eq!((ops[2].cpus.as_slice(), ops[4].mib), (&[1, 4][..], 3072));
        assert_eq!((ops[4].args.as_str(), ops[4].folios), ("256", false));
        assert!(ops[3].swaps && !ops[2].swaps);
    }

    #[test]
    fn a_program_without_a_list() {
        assert!(parse("bench: what is --list?\n").is_err());
        assert!(parse("{\"op\":\"fork\",\"program\":\"bench\"}\n").is_err());
    }
}
