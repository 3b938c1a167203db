//! `folios [MIB]`: touches so much private memory (100 MiB) and shows what the kernel says of it in
//! /proc/self/smaps: how much is there, and on Quire by folios of which sizes. `folios --pid N`:
//! how a process maps large folios, area by area, on Linux, too.
mod process;
mod tally;

use userland::counters;
use userland::sys::Result;
use userland::sys::mem::{self, ANON, RW, mmap};

/// Fields that are shown, and all whose names begin like the last.
const SHOWN: [&str; 4] = ["Size:", "Rss:", "AnonHugePages:", "Folios-"];

/// Touches the memory; its entry in smaps, line by line.
fn entry(bytes: usize) -> Result<Vec<String>> {
    let at = mmap(0, bytes, RW, ANON, -1, 0)?;
    mem::store_addresses(at, at + bytes);
    let text = std::fs::read_to_string("/proc/self/smaps")?;
    // The area may be part of a larger one.
    let holds = |line: &&str| counters::is_header(line) && range(line).contains(&at);
    let lines = text.lines().skip_while(|line| !holds(line));
    let fields = lines.skip(1).take_while(|line| !counters::is_header(line));
    Ok(fields.map(str::to_owned).collect())
}

/// The addresses at the beginning of a header.
fn range(header: &str) -> std::ops::Range<usize> {
    let number = |text: &str| usize::from_str_radix(text, 16).unwrap_or(0);
    let first = header.split(' ').next().unwrap_or("");
    let (start, end) = first.split_once('-').unwrap_or(("", ""));
    number(start)..number(end)
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [option, pid] = &args[..]
        && option == "--pid"
    {
        let Ok(pid) = pid.parse() else { usage() };
        end(process::show(pid));
    }
    let mib = match args.iter().map(|arg| arg.parse()).collect::<Vec<_>>()[..] {
        [] => 100,
        [Ok(mib @ 1..=1_000_000)] => mib,
        _ => usage(),
    };
    end(entry(mib << 20).map(|lines| show(&lines)));
}

/// Prints the fields, of sizes only those that there are, and how to have some where there is none.
fn show(lines: &[String]) {
    let is_size = |line: &&&String| line.starts_with("Folios-");
    let is_there = |line: &&String| line.split_whitespace().skip(1).any(|n| n != "0");
    let shown = |line: &&String| {
        SHOWN.iter().any(|name| line.starts_with(name)) && (!is_size(&line) || is_there(line))
    };
    lines
        .iter()
        .filter(shown)
        .for_each(|line| println!("{line}"));
    let is_large = |line: &&String| is_size(&line) && !line.starts_with("Folios-4kB:");
    let mut sizes = lines.iter().filter(is_large).peekable();
    if sizes.peek().is_some() && !sizes.any(|line| is_there(&line)) {
        println!(
            "All of it is single pages: no larger size is on. For folios of 64 kB:\n\
             echo always > /sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled"
        );
    }
}

fn usage() -> ! {
    eprintln!("usage: folios [MIB | --pid N]");
    std::process::exit(2);
}

fn end(result: Result<()>) -> ! {
    if let Err(error) = &result {
        eprintln!("folios: {error}");
    }
    std::process::exit(result.is_err().into());
}
