//! `record FILE PROGRAM [ARGUMENTS]`: runs a program on Linux and writes down what its allocators
//! ask of the kernel, and which pages it first writes to between these calls
//! ([`userland::trace`]).
//!
//! The program and its threads are stopped at each call about memory; which pages came meanwhile,
//! `/proc/PID/pagemap` tells. It runs without large folios, so that these are the pages that it
//! uses. Processes that it starts are not followed.
mod memory;
mod places;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod tracee;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [file, program @ ..] = &words[..] else {
        usage()
    };
    if program.is_empty() {
        usage();
    }
    let steps = match tracee::run(program) {
        Ok(steps) => places::closer(&steps),
        Err(error) => fail(&format!("{}: {error}", program[0])),
    };
    let bytes = userland::trace::write(&steps);
    if let Err(error) = std::fs::write(file, &bytes) {
        fail(&format!("{file}: {error}"));
    }
    println!("{file}: {} bytes\n{}", bytes.len(), places::summary(&steps));
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn usage() -> ! {
    eprintln!("usage: record FILE PROGRAM [ARGUMENTS]");
    std::process::exit(2)
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn fail(what: &str) -> ! {
    eprintln!("record: {what}");
    std::process::exit(1)
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn main() {
    eprintln!("record: it reads the registers of programs of Linux on x86_64");
    std::process::exit(1)
}
