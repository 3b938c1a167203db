//! STUB of proc.
use alloc::string::String;
pub fn describe_current() -> String {
    String::from("none")
}
pub fn spawn_init(_cmdline: &crate::cmdline::CommandLine) -> Result<(), String> {
    Err(String::from("not built yet"))
}
