//! Runs the tests of a lab on the host: JSON lines: each test, then one before it
//! runs and one after it.
//!
//! ```text
//! lab TESTS NAME SEED  the tests that come with the lab (public), are held back (held-back) or are
//!                      the student's (own), of the solution with that name
//! lab mutants          the names of the broken ones, and what each breaks
//! ```

use labs::chosen;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::process::ExitCode;

thread_local! {
    /// The words of the last panic.
    static WORDS: RefCell<String> = const { RefCell::new(String::new()) };
}

fn main() -> ExitCode {
    set_hook(Box::new(|panic| WORDS.set(panic.to_string())));
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        [tests, name, seed] if let Some(tests) = chosen::tests_by_name(tests) => {
            run(name, seed, tests)
        }
        ["mutants"] => {
            for (name, breaks) in chosen::MUTANTS {
                println!("{{\"mutant\":{name:?},\"breaks\":{breaks:?}}}");
            }
            ExitCode::SUCCESS
        }
        _ => ExitCode::from(2),
    }
}

fn run(name: &str, seed: &str, tests: &[chosen::Test]) -> ExitCode {
    let seed = seed.parse().unwrap_or(0);
    for test in tests {
        println!("{{\"plan\":{:?},\"points\":{}}}", test.asks, test.points);
    }
    let found = chosen::subject_by_name(name, seed, &mut |subject| {
        for test in tests {
            let asks = test.asks;
            println!("{{\"begin\":{asks:?}}}");
            let result = catch_unwind(AssertUnwindSafe(|| (test.run)(subject)));
            let (ok, words) = (result.is_ok(), WORDS.take());
            println!("{{\"test\":{asks:?},\"ok\":{ok},\"words\":{words:?}}}");
        }
        println!("{{\"done\":{}}}", tests.len());
    });
    if found {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(2)
    }
}
