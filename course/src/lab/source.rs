//! What a student's files may not have: anything by which code does more than compute. `unsafe` and
//! other crates the compiler refuses; this finds files that are read at build time, and other
//! modules' doors.
use anyhow::Context;
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use rustix::fs::OFlags;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::str::FromStr;

/// Why nothing may be told by where it is.
const PLACES: &str = "tests tell solutions apart by what they answer, not by where they lie";

/// Words with which code reaches out of itself, and why each is refused.
const REFUSED: [(&str, &str); 27] = [
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
    ("held_back", "the lab's own modules are closed"),
    ("subject_by_name", "the lab's own modules are closed"),
    ("tests_by_name", "the lab's own modules are closed"),
    ("referee", "the lab's own modules are closed"),
    ("asm", "a solution is portable"),
    ("global_asm", "a solution is portable"),
    ("naked_asm", "a solution is portable"),
    ("ptr", PLACES),
    ("raw", PLACES),
    ("as_ptr", PLACES),
    ("as_mut_ptr", PLACES),
    ("as_ptr_range", PLACES),
    ("addr_of", PLACES),
    ("addr_of_mut", PLACES),
    ("from_ref", PLACES),
    ("Pointer", PLACES),
    ("type_name_of_val", PLACES),
];

/// The most that a file may have, in bytes.
const LONGEST: u64 = 256 << 10;
/// How deep brackets may stand in brackets: the compiler's stack ends, too.
const DEEPEST: usize = 100;

/// A student's file; `Err` inside: why it is not taken.
pub fn read(from: &Path, file: &str) -> anyhow::Result<Result<String, String>> {
    let path = from.join(file);
    let bytes = regular(&path, LONGEST);
    let bytes = bytes.with_context(|| format!("cannot read {}", path.display()))?;
    Ok(bytes.and_then(|bytes| String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())))
}

/// The bytes of a regular file, `most` at most. What is none, such as a link or a pipe, is not
/// opened.
pub fn regular(path: &Path, most: u64) -> io::Result<Result<Vec<u8>, String>> {
    if !fs::symlink_metadata(path)?.is_file() {
        return Ok(Err("it is not a regular file".to_owned()));
    }
    let mut bytes = Vec::new();
    File::options()
        .read(true)
        .custom_flags(OFlags::NOFOLLOW.bits() as i32)
        .open(path)?
        .take(most + 1)
        .read_to_end(&mut bytes)?;
    Ok(match bytes.len() as u64 <= most {
        true => Ok(bytes),
        false => Err(format!("it has more than {most} bytes")),
    })
}

/// Whether a file only computes; else its line, and why not.
pub fn check(text: &str) -> Result<(), String> {
    // The compiler passes over such a line, and what reads the rest here must see the same.
    if text.starts_with("#!") && !text.starts_with("#![") {
        return Err("line 1: a solution is no script".to_owned());
    }
    let tokens = TokenStream::from_str(text)
        .map_err(|error| format!("line {}: {error}", error.span().start().line))?;
    match find(tokens) {
        Some(why) => Err(why),
        None => Ok(()),
    }
}

/// The first thing that is refused.
fn find(tokens: TokenStream) -> Option<String> {
    let mut open = vec![tokens.into_iter()];
    // The last token, where the next may belong to it.
    let (mut before, mut line) = (Before::Other, 1);
    while let Some(inner) = open.last_mut() {
        let Some(token) = inner.next() else {
            if matches!(before, Before::Module | Before::NameOfModule) {
                return Some(of_file(line));
            }
            open.pop();
            before = Before::Other;
            continue;
        };
        line = token.span().start().line;
        if let TokenTree::Group(group) = &token {
            if before == Before::Hash
                && let Some(why) = not_allowed(group.stream())
            {
                return Some(why);
            }
            if before == Before::NameOfModule && group.delimiter() != Delimiter::Brace {
                return Some(of_file(line));
            }
            if open.len() == DEEPEST {
                return Some(format!(
                    "line {line}: brackets stand more than {DEEPEST} deep"
                ));
            }
            before = Before::Other;
            open.push(group.stream().into_iter());
            continue;
        }
        match before {
            Before::Module if !matches!(token, TokenTree::Ident(_)) => return Some(of_file(line)),
            Before::NameOfModule => return Some(of_file(line)),
            _ => {}
        }
        before = match &token {
            TokenTree::Ident(ident) => {
                let word = ident.to_string();
                let word = word.trim_start_matches("r#");
                if let Some((_, why)) = REFUSED.iter().find(|(refused, _)| *refused == word) {
                    return Some(format!("line {line}: `{word}` is not allowed: {why}"));
                }
                if before == Before::Star && matches!(word, "const" | "mut") {
                    return Some(format!(
                        "line {line}: a raw pointer is not allowed: {PLACES}"
                    ));
                }
                match before {
                    Before::Module => Before::NameOfModule,
                    _ if word == "mod" => Before::Module,
                    _ => Before::Other,
                }
            }
            TokenTree::Literal(literal) if shows_a_place(&literal.to_string()) => {
                return Some(format!("line {line}: {{:p}} is not allowed: {PLACES}"));
            }
            // `!` may come between `#` and the bracket.
            TokenTree::Punct(mark) => match mark.as_char() {
                '#' => Before::Hash,
                '!' if before == Before::Hash => Before::Hash,
                '*' => Before::Star,
                _ => Before::Other,
            },
            _ => Before::Other,
        };
    }
    None
}

/// What the next token may belong to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Hash,
    Star,
    /// `mod`.
    Module,
    NameOfModule,
    Other,
}

/// Why a module without braces is refused.
fn of_file(line: usize) -> String {
    format!("line {line}: a module of another file is not allowed: a solution is one file")
}

/// Whether a format string has a pointer printed.
fn shows_a_place(literal: &str) -> bool {
    let formats = literal.split('{').skip(1);
    let inner = formats.filter_map(|rest| rest.split('}').next());
    inner
        .filter_map(|inner| inner.split_once(':'))
        .any(|(_, how)| how.trim_end().ends_with('p'))
}

/// What is wrong with an attribute: some name files, or lint levels that hide mistakes.
fn not_allowed(attribute: TokenStream) -> Option<String> {
    const ALLOWED: [&str; 5] = ["doc", "inline", "derive", "must_use", "cold"];
    let name = attribute.into_iter().next()?;
    if ALLOWED.contains(&&*name.to_string()) {
        return None;
    }
    let (line, allowed) = (name.span().start().line, ALLOWED.join(", "));
    Some(format!(
        "line {line}: #[{name}] is not allowed; these are: {allowed}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_computes_is_allowed() {
        let text = include_str!("../../labs/01-order/solution.rs");
        assert_eq!(check(text), Ok(()));
        for text in [
            "// unsafe, std\nfn f() { \"env\"; }",
            "//! Mine.\n#[inline]\nfn f(path: &str) -> bool { !path.is_empty() }",
            "mod helpers { pub fn twice(n: u8) -> u8 { n * 2 } }",
            "fn f(step: u8) { panic!(\"{step}: {:?} {step:>4}, up\", 1) }",
        ] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn doors_are_found_where_they_are() {
        let deep = format!("fn f() {{ {} }}", "(".repeat(9000) + &")".repeat(9000));
        for (text, why) in [
            ("fn f() {\n    unsafe { g() }\n}", "line 2: `unsafe`"),
            (
                "const A: &str = include_str!(\"/etc/passwd\");",
                "`include_str`",
            ),
            ("#[path = \"x.rs\"] mod x;", "#[path]"),
            ("#![allow(warnings)]", "#[allow]"),
            ("#[cfg_attr(all(), path = \"x.rs\")] mod x;", "#[cfg_attr]"),
            (
                "macro_rules! m { ($a:meta) => { #[$a] fn f() {} } }",
                "#[$]",
            ),
            ("use super::r#answer_key;", "`answer_key`"),
            (
                "macro_rules! m { () => { std::process::exit(0) } }",
                "`std`",
            ),
            ("#!\"\nextern crate std;", "no script"),
            ("fn f() {\n    \"", "line 2: "),
            ("fn a() {}\nmod x;", "line 2: a module of another file"),
            ("m!(mod x;);", "a module of another file"),
            (
                "macro_rules! m { ($a:ident) => { mod $a; } }",
                "a module of another file",
            ),
            ("mod", "a module of another file"),
            ("mod x", "a module of another file"),
            (
                "fn f(p: &u8) -> usize { p as *const u8 as usize }",
                "a raw pointer",
            ),
            ("fn f(p: &u8) { panic!(\"{p:p}\") }", "{:p}"),
            ("fn f(p: &u8) { panic!(\"{:#018p}\", p) }", "{:p}"),
            (&deep, "100 deep"),
        ] {
            let found = check(text).unwrap_err();
            assert!(found.contains(why), "{text}: {found}");
        }
    }

    #[test]
    fn only_regular_files_are_read() {
        let folder = tools::host::workspace::Temporary::folder("source").unwrap();
        let path = folder.path();
        fs::write(path.join("a.rs"), "fn f() {}").unwrap();
        std::os::unix::fs::symlink("a.rs", path.join("b.rs")).unwrap();
        fs::write(path.join("c.rs"), [b'/'; 300_000]).unwrap();
        fs::write(path.join("d.rs"), [0xff]).unwrap();
        fs::create_dir(path.join("e.rs")).unwrap();
        let of = |file| read(path, file).unwrap();
        assert_eq!(of("a.rs").unwrap(), "fn f() {}");
        assert!(of("b.rs").unwrap_err().contains("regular"));
        assert!(of("c.rs").unwrap_err().contains("262144 bytes"));
        assert!(of("d.rs").unwrap_err().contains("UTF-8"));
        assert!(of("e.rs").unwrap_err().contains("regular"));
        assert!(read(path, "f.rs").is_err());
    }
}
