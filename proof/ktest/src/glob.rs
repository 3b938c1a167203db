//! Patterns over test names: `*` is any text, `?` any one character; commas separate alternatives.

/// Whether `text` as a whole matches one of the comma-separated patterns.
pub fn matches(patterns: &str, text: &str) -> bool {
    patterns
        .split(',')
        .any(|pattern| one(pattern.as_bytes(), text.as_bytes()))
}

/// One pattern. Backs up to the last star only: linear in practice, no recursion.
fn one(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where the last star stood and how much text it has eaten so far.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(&byte) if byte == b'?' || byte == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((at, eaten)) => {
                    star = Some((at, eaten + 1));
                    p = at + 1;
                    t = eaten + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn stars_and_alternatives() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("*", "mm.buddy", true),
            ("mm.*", "mm.buddy", true),
            ("mm.*", "xmm.buddy", false),
            ("*buddy*", "mm.frame.buddy.splits", true),
            ("*.splits", "mm.frame.buddy.splits", true),
            ("*.split", "mm.frame.buddy.splits", false),
            ("a*b*c", "aXbXbXc", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("x,mm.*", "mm.buddy", true),
            ("", "mm", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} against {text}");
        }
    }
}
