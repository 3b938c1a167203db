//! The kernel with breaks in it, and the two suites that look for one: inside of it and in user
//! mode.
use super::tree::{Tree, with_choice};
use crate::test::transcript::Transcript;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tools::host::arch::Arch;
use tools::host::workspace::Temporary;
use tools::machine::build;
use tools::machine::console;
use tools::machine::guest::End;
use tools::machine::qemu::Machine;

/// For a whole suite; one that hangs is noticed by its silence long before.
const LIMIT: Duration = Duration::from_secs(900);
/// The beginning of a name, and the command line.
const SUITES: [(&str, &str); 2] = [
    ("kernel.x86_64", "quire.test=*"),
    ("user.x86_64.selftests", "quiet -- selftests"),
];

/// A checkout's kernel, built when it is needed.
pub struct Kernel<'a> {
    checkout: &'a Path,
    /// Its file, or why there is none.
    image: Mutex<Option<Result<PathBuf, String>>>,
}

impl Kernel<'_> {
    /// The kernel of a checkout.
    pub fn of(checkout: &Path) -> Kernel<'_> {
        Kernel {
            checkout,
            image: Mutex::new(None),
        }
    }

    /// The first test that fails with a break, which is the only one or the one with this number,
    /// and how long its suite took until then, of real time.
    pub fn finds(&self, number: Option<u32>) -> Result<Option<(String, Duration)>> {
        let image = self.image(number.is_some())?;
        let chosen;
        let image = match number {
            None => image,
            Some(number) => {
                let bytes = std::fs::read(&image)?;
                // Without a choice the kernel has no break at all: it was in dead code.
                let Some(bytes) = with_choice(&bytes, number) else {
                    return Ok(None);
                };
                chosen = Temporary::file("kernel", &bytes)?;
                chosen.path().to_owned()
            }
        };
        for (prefix, words) in SUITES {
            let started = Instant::now();
            if let Some(test) = fails(&image, words)? {
                return Ok(Some((format!("{prefix}.{test}"), started.elapsed())));
            }
        }
        Ok(None)
    }

    /// Builds it, once. Where none of its breaks is on, it must pass.
    fn image(&self, passes: bool) -> Result<PathBuf> {
        let mut image = self.image.lock().unwrap_or_else(PoisonError::into_inner);
        let built = || -> Result<PathBuf> {
            let target = Tree::target();
            let image = build::elsewhere(Arch::X86_64, self.checkout, &target)?.image;
            for (prefix, words) in SUITES.iter().filter(|_| passes) {
                let failed = fails(&image, words)?;
                ensure!(
                    failed.is_none(),
                    "with nothing broken {prefix} fails: {failed:?}"
                );
            }
            Ok(image)
        };
        let image = image.get_or_insert_with(|| built().map_err(|error| format!("{error:#}")));
        image.clone().map_err(anyhow::Error::msg)
    }
}

/// The first test of a suite that fails on a kernel, or how the machine ended.
fn fails(image: &Path, words: &str) -> Result<Option<String>> {
    let mut machine = Machine::new(Arch::X86_64, image.to_owned());
    machine.command_line = words.to_owned();
    let mut transcript = Transcript::default();
    let boot = console::watch(&machine, LIMIT, |piece| transcript.feed(piece));
    let boot = boot.context("cannot boot a broken kernel")?;
    let failed = transcript.done.iter().find(|test| !test.ok);
    if let Some(test) = failed {
        return Ok(Some(test.name.clone()));
    }
    if let Some(test) = transcript.running {
        return Ok(Some(test));
    }
    let well = transcript.complete() && boot.end == End::Status(0);
    Ok((!well).then(|| format!("end: {:?}", boot.end)))
}
