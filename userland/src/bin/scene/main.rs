//! `scene [STEP ...]`: two processes that do one thing to their memory after the other, and after
//! each a JSON line of what there is: the page tables of both, their areas, and how far the
//! counters moved. Steps are arguments, or lines of standard input, once there is a line for
//! `begin`. Draws nothing itself: `./run.sh picture` and `./run.sh play` do.
//!
//! | step | does |
//! |---|---|
//! | `size KB` | folios of this size only from now on; 4 is none |
//! | `map A-B` | private memory for these pages |
//! | `write A-B`, `read A-B` | one byte of each page |
//! | `free A-B` | MADV_DONTNEED |
//! | `out A-B` | MADV_PAGEOUT: to swap slots, where the machine has some |
//! | `unmap A-B` | munmap |
//! | `protect A-B`, `allow A-B` | mprotect: read-only, writable |
//! | `move A-B C` | mremap to page C |
//! | `collapse A-B` | MADV_COLLAPSE |
//! | `fork` | the second process, by the first one |
//! | `exit` | the second one ends |
//! | `child STEP` | the second one does it |
//!
//! Pages are counted from the beginning of the scene, an address of its own.
mod actors;
mod state;
mod step;

use actors::{Done, Stage};
use std::io::{BufRead, Write, stdin, stdout};
use std::process::exit;
use userland::sys::Result;

/// Does a step, and prints its line.
fn show(stage: &mut Stage, line: &str) -> Result<()> {
    let done = stage.perform(line)?;
    say(stage, line, &done)
}

fn say(stage: &Stage, line: &str, done: &Done) -> Result<()> {
    println!("{}", state::json(stage, line, done));
    Ok(stdout().flush()?)
}

fn run() -> Result<()> {
    let mut stage = Stage::open()?;
    let steps: Vec<String> = std::env::args().skip(1).collect();
    for step in &steps {
        show(&mut stage, step)?;
    }
    if steps.is_empty() {
        // Whoever types waits for this.
        say(&stage, "begin", &Done::default())?;
        for line in stdin().lock().lines() {
            let line = line?;
            if !line.trim().is_empty() {
                show(&mut stage, line.trim())?;
            }
        }
    }
    stage.close()
}

fn main() {
    if let Err(error) = run() {
        eprintln!("scene: {error}");
        exit(1);
    }
}
