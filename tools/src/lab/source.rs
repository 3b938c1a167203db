//! What a student's files may not have: anything by which code does more than compute. `unsafe` and
//! other crates the compiler refuses; this finds files that are read at build time, and other
//! modules' doors.
use proc_macro2::{TokenStream, TokenTree};
use std::mem::take;
use std::str::FromStr;

/// Words with which code reaches out of itself, and why each is refused.
const REFUSED: [(&str, &str); 13] = [
    ("unsafe", "a solution is safe code"),
    (
        "extern",
        "a solution has no other crates than core and alloc",
    ),
    ("include", "other files are not part of a solution"),
    ("include_str", "other files are not part of a solution"),
    ("include_bytes", "other files are not part of a solution"),
    ("env", "a solution does not depend on where it is built"),
    (
        "option_env",
        "a solution does not depend on where it is built",
    ),
    ("std", "a solution has no other crates than core and alloc"),
    ("answer_key", "the lab's own modules are closed"),
    ("broken_solutions", "the lab's own modules are closed"),
    ("subject_by_name", "the lab's own modules are closed"),
    ("referee", "the lab's own modules are closed"),
    ("asm", "a solution is portable"),
];

/// The first refused word of a file: its line, and why.
pub fn refused(text: &str) -> Option<String> {
    match TokenStream::from_str(text) {
        Ok(tokens) => find(tokens),
        // The compiler says it better.
        Err(_) => None,
    }
}

fn find(tokens: TokenStream) -> Option<String> {
    let mut attribute = false;
    tokens.into_iter().find_map(|token| match token {
        TokenTree::Punct(mark) => {
            // `!` may come between `#` and the bracket.
            attribute = mark.as_char() == '#' || attribute && mark.as_char() == '!';
            None
        }
        TokenTree::Group(group) => {
            let of_attribute = take(&mut attribute).then(|| not_allowed(group.stream()));
            of_attribute.flatten().or_else(|| find(group.stream()))
        }
        TokenTree::Ident(ident) => {
            attribute = false;
            let word = ident.to_string();
            let word = word.trim_start_matches("r#");
            let (_, why) = REFUSED.iter().find(|(refused, _)| *refused == word)?;
            let line = ident.span().start().line;
            Some(format!("line {line}: `{word}` is not allowed: {why}"))
        }
        _ => None,
    })
}

/// What is wrong with an attribute: some name files, or lint levels that hide mistakes.
fn not_allowed(attribute: TokenStream) -> Option<String> {
    const ALLOWED: [&str; 5] = ["doc", "inline", "derive", "must_use", "cold"];
    match attribute.into_iter().next() {
        Some(TokenTree::Ident(name)) if !ALLOWED.contains(&&*name.to_string()) => {
            let line = name.span().start().line;
            let allowed = ALLOWED.join(", ");
            Some(format!(
                "line {line}: #[{name}] is not allowed; these are: {allowed}"
            ))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_computes_is_allowed() {
        let text = include_str!("../../../labs/01-order/solution.rs");
        assert_eq!(refused(text), None);
        assert_eq!(refused("// unsafe, std\nfn f() { \"env\"; }"), None);
        assert_eq!(
            refused("//! Mine.\n#[inline]\nfn f(path: &str) -> bool { !path.is_empty() }"),
            None
        );
    }

    #[test]
    fn doors_are_found_where_they_are() {
        let of = |text| refused(text).unwrap();
        assert!(of("fn f() {\n    unsafe { g() }\n}").starts_with("line 2: `unsafe`"));
        assert!(of("const A: &str = include_str!(\"/etc/passwd\");").contains("`include_str`"));
        assert!(of("#[path = \"x.rs\"] mod x;").contains("#[path]"));
        assert!(of("#![allow(warnings)]").contains("#[allow]"));
        assert!(of("#[cfg_attr(all(), path = \"x.rs\")] mod x;").contains("#[cfg_attr]"));
        assert!(of("use super::r#answer_key;").contains("`answer_key`"));
        assert!(of("macro_rules! m { () => { std::process::exit(0) } }").contains("`std`"));
    }
}
