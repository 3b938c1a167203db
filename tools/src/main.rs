//! The program behind `run.sh`.
fn main() {}
