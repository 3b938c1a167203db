//! The kernel command line, read once.

use mm::switch::Switch;
pub use parts::cmdline::CommandLine;
use spin::Once;

static COMMAND_LINE: Once<CommandLine> = Once::new();

/// Reads the command line; called once by boot.
pub fn init(text: &str) -> &'static CommandLine {
    let is_switch = |name: &str| Switch::by_name(name).is_some();
    COMMAND_LINE.call_once(|| parts::cmdline::parse(text, is_switch))
}

/// The command line.
pub fn get() -> &'static CommandLine {
    COMMAND_LINE
        .get()
        .expect("the command line is read at boot")
}
