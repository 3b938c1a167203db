//! A plugin for QEMU that counts what guest programs and their kernel do between two marks
//! (`userland/src/marks.rs`): instructions and accesses of each CPU in user and kernel mode, and,
//! when asked for, the cache lines that each CPU touched, and what a model of a core makes of it.
//!
//! ```text
//! qemu-system-x86_64 ... \
//!     -plugin libquire_plugin.so,out=FILE[,lines=count|each][,model=CORE][,ram=FILE]
//! ```
//!
//! Counters are words that translated code adds to without a call, and run all the time; a
//! measurement is the difference between two readings. Callbacks are only on user stores, one of
//! which may be a mark, and with `lines` on each access. What needs no QEMU is in the crate
//! `measure`; [`abi`] is what QEMU has.

use counts::Arch;
use counts::args::Args;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

mod abi;
mod bulk;
mod modelled;
mod run;
mod translate;
mod turns;

use run::Run;

/// The one run, from the loading of the plugin to the end of QEMU.
static RUN: OnceLock<Run> = OnceLock::new();

/// What a mutex guards, whatever happened to who had it.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins, or says why not, in one sentence: QEMU does not start then.
fn install(id: abi::Id, target: &abi::Target, words: &[String]) -> Result<(), String> {
    let arch = Arch::named(&target.name)
        .filter(|_| target.cpus > 0)
        .ok_or("it is for qemu-system-x86_64 and qemu-system-aarch64")?;
    let args = Args::parse(words.iter().map(String::as_str))?;
    let run = Run::new(arch, &args, target.cpus)?;
    if RUN.set(run).is_err() {
        return Err("it can be loaded once".to_owned());
    }
    abi::on_cpu(id, turns::cpu);
    abi::on_translation(id, translate::block);
    Ok(())
}
