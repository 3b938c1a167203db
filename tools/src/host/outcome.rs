//! How a test ended.

/// How a test ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It passed.
    Passed,
    /// It failed, with all output that may explain it.
    Failed(String),
    /// It does not apply here, for this reason.
    Skipped(String),
}
