//! What there is after a step, as JSON.
use crate::actors::{Done, Stage};
use crate::step::{PAGES, START};
use std::fs;
use userland::sys::mem::PAGE;
use userland::sys::proc;

/// The lines of a file of `/proc/PID` that begin with a range that overlaps the scene.
fn lines(pid: i32, file: &str) -> Vec<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let of_scene = text.lines().filter(|line| overlaps(line));
    of_scene.map(str::to_owned).collect()
}

fn overlaps(line: &str) -> bool {
    let range = line.split(' ').next().and_then(|word| word.split_once('-'));
    let number = |text| usize::from_str_radix(text, 16).unwrap_or(0);
    range.is_some_and(|(start, end)| number(start) < START + PAGES * PAGE && number(end) > START)
}

/// A text as JSON has it.
fn quoted(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{}\"", escaped.replace('\t', " "))
}

fn list(lines: &[String]) -> String {
    let quoted: Vec<String> = lines.iter().map(|line| quoted(line)).collect();
    format!("[{}]", quoted.join(","))
}

fn process(pid: i32) -> String {
    format!(
        "{{\"pid\":{pid},\"areas\":{},\"tables\":{}}}",
        list(&lines(pid, "maps")),
        list(&lines(pid, "page_tables"))
    )
}

/// The line of a step.
pub fn json(stage: &Stage, step: &str, done: &Done) -> String {
    let error = done.error.as_deref().map_or("null".to_owned(), quoted);
    let processes = [Some(proc::getpid()), stage.child()];
    let processes: Vec<String> = processes.into_iter().flatten().map(process).collect();
    format!(
        "{{\"scene\":{},\"start\":{START},\"error\":{error},\"counters\":{{{}}},\"processes\":[{}]}}",
        quoted(step),
        done.counters,
        processes.join(",")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_scene() {
        assert!(overlaps("200000000000-200000200000 pmd 0-0 table 12"));
        assert!(overlaps("200000000000-208000000000 pgd 64-64 table 12"));
        assert!(!overlaps("200004000000-200004001000 rw-p"));
        assert!(!overlaps("7f0000000000-7f0000001000 rw-p") && !overlaps("x"));
    }

    #[test]
    fn texts_are_quoted() {
        assert_eq!(quoted("a \"b\"\\"), "\"a \\\"b\\\"\\\\\"");
    }
}
