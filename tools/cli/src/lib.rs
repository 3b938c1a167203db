//! The program behind `run.sh`: all of its commands, and the tests that `./run.sh test` runs.
pub mod doctor;
#[cfg(test)]
mod links;
#[cfg(test)]
mod pages;
#[cfg(test)]
mod tables;
pub mod test;

use course::{book, lab, picture, play};
use measure::{age, bench, compare, compat, conflicts, profile, reclaim, report, seeds, sweep};
use tools::args::{self, Cli, Command};
use tools::{house, media, proof, run};

/// Runs the command line's command and returns the exit status.
pub fn dispatch(cli: Cli) -> anyhow::Result<u8> {
    match cli.command {
        None => run::run(&cli.run),
        Some(Command::Run(args)) => run::run(&args),
        Some(Command::Test(args)) => test::test(&args),
        Some(Command::Try(args)) => test::of_room(&args),
        Some(Command::Age(args)) => age::age(&args),
        Some(Command::Bench(args)) => bench::bench(&args),
        Some(Command::Compare(args)) => compare::compare(&args),
        Some(Command::Compat(args)) => compat::compat(&args),
        Some(Command::Conflicts(args)) => conflicts::conflicts(&args),
        Some(Command::Reclaim(args)) => reclaim::reclaim(&args),
        Some(Command::Report(args)) => report::report(&args),
        Some(Command::Seeds(args)) => seeds::seeds(&args),
        Some(Command::Sweep(args)) => sweep::sweep(&args),
        Some(Command::Lab(args)) => lab::lab(&args),
        Some(Command::Sandboxed(args)) => lab::sandboxed(&args),
        Some(Command::House(args)) => house::house(&args),
        Some(Command::Proof(args)) => proof::proof(&args),
        Some(Command::Book(args)) => book::book(&args),
        Some(Command::Picture(args)) => picture::picture(&args),
        Some(Command::Play(args)) => play::play(&args),
        Some(Command::Profile(args)) => profile::profile(&args),
        Some(Command::Image(args)) => media::image(&args),
        Some(Command::Doctor(args)) => doctor::doctor(&args),
        Some(Command::Completions(args)) => {
            args::complete(&args);
            Ok(0)
        }
    }
}
