//! `frames`: makes folios of several sizes in two processes and prints, as JSON lines, what each
//! frame of the machine is used for afterwards, and whose it is: what `./run.sh report` draws.
//!
//! The processes take turns, a quarter of a MiB or a folio each, so that their folios lie between
//! each other; a part is inherited by a fork and is both's; the second one gives back three of four
//! pages at the end of what it has. From /proc/kpageflags, both pagemaps and /proc/meminfo, which
//! Linux has, too (pagemap.rst); root reads them.
mod owners;
mod runs;
mod state;
mod words;

use owners::{Owners, SIZES};
use runs::runs;
use state::{State, states};
use std::process::exit;
use userland::counters::{self, Missing};
use userland::measuring::release;
use userland::sys::{self, Result};

fn print() -> Result<()> {
    let owners = Owners::make()?;
    let flags = words::all("/proc/kpageflags")?;
    let mapped = owners.mapped()?;
    let free = counters::figure("/proc/meminfo", "MemFree").map_err(Missing::say)? / 4;
    owners.end()?;
    let kernel = match counters::on_quire() {
        true => "quire",
        false => "linux",
    };
    println!(
        "{{\"begin\":\"frames\",\"kernel\":\"{kernel}\",\"version\":\"{}\",\"arch\":\"{}\",\
         \"sizes_kb\":{SIZES:?}}}",
        release(),
        std::env::consts::ARCH
    );
    let states = states(&flags, &mapped);
    let runs = runs(&states);
    for run in &runs {
        println!("{}", run.to_json());
    }
    let shown = states.iter().filter(|(state, _)| *state == State::Free);
    println!(
        "{{\"done\":true,\"runs\":{},\"free\":{},\"mem_free\":{free}}}",
        runs.len(),
        shown.count()
    );
    Ok(())
}

fn main() {
    if std::env::args().len() > 1 {
        eprintln!("usage: frames");
        exit(2);
    }
    if let Err(error) = print() {
        eprintln!("frames: {error}");
        sys::proc::exit_now(1);
    }
}
