//! Words of the command line that come from a fixed list.
use crate::host::errors::UsageError;

/// How alike two words must be for one to be suggested for the other: 0 (nothing in common) to 1;
/// clap's own limit.
const ALIKE: f64 = 0.7;

/// The error for `word` behind `option`: the whole list, and the known word that is most like it.
pub fn unknown(option: &str, word: &str, known: &[&str]) -> UsageError {
    let meant = nearest(word, known).map(|near| format!("; did you mean {near}?"));
    UsageError(format!(
        "{option} {word} is none of {}{}",
        known.join(", "),
        meant.unwrap_or_default()
    ))
}

/// Checks `words` one by one.
pub fn check<'a>(
    option: &str,
    words: impl IntoIterator<Item = &'a str>,
    known: &[&str],
) -> Result<(), UsageError> {
    match words.into_iter().find(|word| !known.contains(word)) {
        Some(word) => Err(unknown(option, word, known)),
        None => Ok(()),
    }
}

/// Words or numbers as options take them: with commas between.
pub fn list(words: impl IntoIterator<Item: ToString>) -> String {
    let words = words.into_iter().map(|word| word.to_string());
    words.collect::<Vec<_>>().join(",")
}

/// The known word that is most like `word`, if any is like it at all.
fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    // Digits that two numbers share mean nothing.
    if word.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let alike = |other: &&str| strsim::jaro(word, other);
    let best = known
        .iter()
        .copied()
        .max_by(|one, other| alike(one).total_cmp(&alike(other)))?;
    (alike(&best) > ALIKE).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_word_gets_the_list_and_the_nearest() {
        let known = ["fork", "fault", "munmap"];
        let error = check("--op", ["fork", "fualt"], &known).unwrap_err();
        assert_eq!(
            error.0,
            "--op fualt is none of fork, fault, munmap; did you mean fault?"
        );
        let error = check("--op", ["zzz"], &known).unwrap_err();
        assert!(error.0.ends_with("munmap"), "{error}");
        assert!(
            check("--size", ["5"], &["512"])
                .unwrap_err()
                .0
                .ends_with("512")
        );
        assert!(check("--op", known, &known).is_ok());
    }
}
