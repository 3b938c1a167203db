//! What tests of texts have in common.

/// The text has this part; else it is shown.
#[track_caller]
pub fn has(text: &str, part: &str) {
    assert!(text.contains(part), "{part:?} is not in {text}");
}

/// The text has not got this part; else it is shown.
#[track_caller]
pub fn lacks(text: &str, part: &str) {
    assert!(!text.contains(part), "{part:?} is in {text}");
}
