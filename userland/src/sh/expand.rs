//! Expansion of words to arguments: variables, splitting at spaces, `*` and `?` in the last
//! component of a path.
use super::lex::{Piece, Word};

/// A source of variables.
pub trait Variables {
    /// The value of `$NAME`; unset is empty.
    fn value(&self, name: &str) -> String;
}

/// A character and whether it was quoted.
type Field = Vec<(char, bool)>;

/// Expands `words` to arguments.
pub fn arguments(words: &[Word], vars: &impl Variables) -> Vec<String> {
    words
        .iter()
        .flat_map(|w| fields(w, vars))
        .flat_map(|f| paths(&f))
        .collect()
}

/// One string without splitting and patterns: for assignments and redirections.
pub fn single(word: &Word, vars: &impl Variables) -> String {
    word.iter()
        .map(|p| match p {
            Piece::Text { text, .. } => text.clone(),
            Piece::Var { name, .. } => vars.value(name),
        })
        .collect()
}

fn fields(word: &Word, vars: &impl Variables) -> Vec<Field> {
    let mut done = Vec::new();
    let mut now: Option<Field> = None;
    for piece in word {
        match piece {
            Piece::Text { text, quoted } => {
                now.get_or_insert_default()
                    .extend(text.chars().map(|c| (c, *quoted)));
            }
            Piece::Var { name, quoted: true } => {
                now.get_or_insert_default()
                    .extend(vars.value(name).chars().map(|c| (c, true)));
            }
            Piece::Var {
                name,
                quoted: false,
            } => {
                for c in vars.value(name).chars() {
                    match c.is_ascii_whitespace() {
                        true => done.extend(now.take()),
                        false => now.get_or_insert_default().push((c, false)),
                    }
                }
            }
        }
    }
    done.extend(now);
    done
}

/// The files a pattern in the last component matches, sorted; the text itself when there is no
/// pattern or no file.
fn paths(field: &Field) -> Vec<String> {
    let text: String = field.iter().map(|f| f.0).collect();
    let last = field.iter().rposition(|f| f.0 == '/').map_or(0, |n| n + 1);
    let pattern = &field[last..];
    if !pattern.iter().any(|f| !f.1 && matches!(f.0, '*' | '?')) {
        return vec![text];
    }
    let dir: String = field[..last].iter().map(|f| f.0).collect();
    let read = std::fs::read_dir(if dir.is_empty() { "." } else { &dir });
    let hidden = pattern.first().is_some_and(|f| f.0 == '.');
    let mut found: Vec<String> = read
        .into_iter()
        .flatten()
        .filter_map(|e| e.ok()?.file_name().into_string().ok())
        .filter(|name| hidden || !name.starts_with('.'))
        .filter(|name| matches(pattern, &name.chars().collect::<Vec<_>>()))
        .map(|name| format!("{dir}{name}"))
        .collect();
    found.sort();
    if found.is_empty() { vec![text] } else { found }
}

fn matches(pattern: &[(char, bool)], name: &[char]) -> bool {
    match (pattern.first(), name.first()) {
        (None, None) => true,
        (Some(('*', false)), _) => (0..=name.len()).any(|n| matches(&pattern[1..], &name[n..])),
        (Some(('?', false)), Some(_)) => matches(&pattern[1..], &name[1..]),
        (Some((p, _)), Some(n)) => p == n && matches(&pattern[1..], &name[1..]),
        _ => false,
    }
}

/// Whether `name` matches `pattern` with `*` and `?`: also for the tests' filters.
pub fn glob(pattern: &str, name: &str) -> bool {
    let pattern: Vec<_> = pattern.chars().map(|c| (c, false)).collect();
    matches(&pattern, &name.chars().collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::super::parse::parse;
    use super::*;

    struct Fixed;
    impl Variables for Fixed {
        fn value(&self, name: &str) -> String {
            match name {
                "TWO" => " a  b ".into(),
                "?" => "7".into(),
                _ => String::new(),
            }
        }
    }

    fn args(line: &str) -> Vec<String> {
        arguments(
            &parse(line).unwrap()[0].pipelines[0].1.commands[0].words,
            &Fixed,
        )
    }

    #[test]
    fn variables_split_unless_quoted() {
        assert_eq!(args("e $TWO"), ["e", "a", "b"]);
        assert_eq!(args("e \"$TWO\""), ["e", " a  b "]);
        assert_eq!(args("e x$TWO''y"), ["e", "x", "a", "b", "y"]);
        assert_eq!(args("e $NONE \"\" '' $?"), ["e", "", "", "7"]);
        assert_eq!(
            args("e '$TWO' \\$TWO $ a$"),
            ["e", "$TWO", "$TWO", "$", "a$"]
        );
    }

    #[test]
    fn patterns() {
        assert!(glob("*", ""));
        assert!(glob("mem*cow?", "memory_cow1"));
        assert!(!glob("a?", "a"));
        assert!(!glob("a*b", "abc"));
    }

    #[test]
    fn files_of_a_directory_sorted() {
        let dir = std::env::temp_dir().join(format!("sh-glob-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        for name in ["b.rs", "a.rs", ".c.rs", "d"] {
            std::fs::write(dir.join(name), "").unwrap();
        }
        let d = dir.display();
        assert_eq!(
            args(&format!("e {d}/*.rs")),
            ["e".into(), format!("{d}/a.rs"), format!("{d}/b.rs")]
        );
        assert_eq!(
            args(&format!("e {d}/'*'.rs")),
            ["e".into(), format!("{d}/*.rs")]
        );
        assert_eq!(
            args(&format!("e {d}/no*")),
            ["e".into(), format!("{d}/no*")]
        );
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
