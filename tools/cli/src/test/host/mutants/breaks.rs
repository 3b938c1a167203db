//! Breaks from the list of cargo-mutants, and how they are written into the source: each so that
//! it is chosen when the program runs, where that compiles, and else alone.
use anyhow::{Context, Result, ensure};
use proc_macro2::{LineColumn, Span};
use serde_json::Value;
use std::ops::Range;
use std::path::Path;
use std::process::Command;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// What is broken: the memory manager, the account, files. Labs are not: no test builds them.
const FILES: [&str; 3] = ["kernel/mm/src/**", "kernel/own/src/**", "kernel/src/fs/**"];
const NOT: [&str; 2] = ["**/lab.rs", "**/mutant.rs"];

/// One way to break the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Break {
    /// `FILE:LINE:COLUMN: WHAT`.
    pub name: String,
    /// Relative to the checkout.
    pub file: String,
    /// How the source differs, for people.
    pub diff: String,
    genre: String,
    replacement: String,
    /// Lines and columns from 1, as in `name`.
    span: [(usize, usize); 2],
}

/// All breaks of a checkout.
pub fn list(checkout: &Path) -> Result<Vec<Break>> {
    let mut command = Command::new("cargo");
    command
        .current_dir(checkout)
        .args(["mutants", "--no-config", "--list", "--json", "--diff"]);
    command.args(["--package=mm", "--package=own", "--package=kernel"]);
    command.args(FILES.iter().flat_map(|glob| ["--file", glob]));
    command.args(NOT.iter().flat_map(|glob| ["--exclude", glob]));
    let output = command.output().context("cannot start cargo")?;
    ensure!(
        output.status.success(),
        "cargo mutants does not list ({}): is it there? `cargo install cargo-mutants --locked`\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    let listed: Vec<Value> = serde_json::from_slice(&output.stdout)?;
    let breaks = listed.iter().map(Break::read);
    breaks
        .collect::<Option<_>>()
        .context("cargo mutants lists in another format")
}

impl Break {
    fn read(value: &Value) -> Option<Break> {
        let text = |key: &str| value[key].as_str().map(str::to_owned);
        let at = |end: &str| {
            let number = |key: &str| Some(value["span"][end][key].as_u64()? as usize);
            Some((number("line")?, number("column")?))
        };
        Some(Break {
            name: text("name")?,
            file: text("file")?,
            diff: text("diff")?,
            genre: text("genre")?,
            replacement: text("replacement")?,
            span: [at("start")?, at("end")?],
        })
    }

    /// One with a name, for tests.
    #[cfg(test)]
    pub fn named(file: &str, name: &str) -> Break {
        Break {
            name: name.to_owned(),
            file: file.to_owned(),
            diff: String::new(),
            genre: String::new(),
            replacement: String::new(),
            span: [(1, 1); 2],
        }
    }

    /// Its name without the line and the column: the same after a change somewhere else.
    pub fn lasting(&self) -> &str {
        self.name.splitn(4, ':').last().unwrap_or_default()
    }

    /// Whether only a kernel has the code.
    pub fn is_of_kernel(&self) -> bool {
        self.file.starts_with("kernel/src/")
    }

    /// The package that has the code.
    pub fn package(&self) -> &'static str {
        match self.file.split('/').nth(1) {
            Some("mm") => "mm",
            Some("own") => "own",
            _ => "kernel",
        }
    }

    /// The source with this break and no other.
    pub fn alone(&self, text: &str) -> Edit {
        let [start, end] = self
            .span
            .map(|(line, column)| offset(text, line, column - 1));
        Edit {
            range: start..end,
            text: self.replacement.clone(),
        }
    }

    /// The source with this break where `on` says so; `None`: it cannot be chosen.
    pub fn chosen(&self, text: &str, file: &syn::File, on: &str) -> Option<Edit> {
        let mut finder = Finder {
            text,
            wanted: self.alone(text).range,
            genre: &self.genre,
            replacement: &self.replacement,
            on,
            edit: None,
        };
        if self.genre == "FnValue" {
            let at = finder.wanted.start;
            let text = format!("if {on} {{ return {}; }} ", self.replacement);
            return Some(Edit {
                range: at..at,
                text,
            });
        }
        finder.visit_file(file);
        finder.edit
    }
}

/// A piece of source, and what comes in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// In bytes.
    pub range: Range<usize>,
    /// New text.
    pub text: String,
}

impl Edit {
    /// Whether both change, or are inserted into, one piece.
    pub fn meets(&self, other: &Edit) -> bool {
        self.range.start <= other.range.end && other.range.start <= self.range.end
    }
}

/// The byte of a line from 1 and a column, in characters from 0.
fn offset(text: &str, line: usize, column: usize) -> usize {
    let lines = text.split_inclusive('\n').take(line - 1);
    let start: usize = lines.map(str::len).sum();
    let within = text[start..].char_indices().nth(column);
    within.map_or(text.len(), |(at, _)| start + at)
}

/// Looks for the expression or the arm that a break is in.
struct Finder<'a> {
    text: &'a str,
    wanted: Range<usize>,
    genre: &'a str,
    replacement: &'a str,
    on: &'a str,
    edit: Option<Edit>,
}

impl Finder<'_> {
    fn range(&self, span: Span) -> Range<usize> {
        let at = |place: LineColumn| offset(self.text, place.line, place.column);
        at(span.start())..at(span.end())
    }

    /// The whole expression twice, once with the break.
    fn twice(&mut self, whole: Range<usize>) {
        let Range { start, end } = self.wanted.clone();
        let old = &self.text[whole.clone()];
        let new = [
            &self.text[whole.start..start],
            self.replacement,
            &self.text[end..whole.end],
        ];
        let text = format!("(if {} {{ {} }} else {{ {old} }})", self.on, new.concat());
        self.edit = Some(Edit { range: whole, text });
    }

    /// A guard of an arm that goes, or comes to be true or false.
    fn guard(&mut self, guard: Range<usize>) {
        let (on, old) = (self.on, &self.text[guard.clone()]);
        let text = match self.replacement {
            "true" => format!("({on} || ({old}))"),
            _ => format!("(!{on} && ({old}))"),
        };
        self.edit = Some(Edit { range: guard, text });
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_expr_binary(&mut self, expr: &'ast syn::ExprBinary) {
        if self.genre == "BinaryOperator" && self.range(expr.op.span()) == self.wanted {
            self.twice(self.range(expr.span()));
        }
        visit::visit_expr_binary(self, expr);
    }

    fn visit_expr_unary(&mut self, expr: &'ast syn::ExprUnary) {
        if self.genre == "UnaryOperator" && self.range(expr.op.span()) == self.wanted {
            self.twice(self.range(expr.span()));
        }
        visit::visit_expr_unary(self, expr);
    }

    fn visit_expr_struct(&mut self, expr: &'ast syn::ExprStruct) {
        let starts = |field: &syn::FieldValue| self.range(field.span()).start == self.wanted.start;
        if self.genre == "StructField" && expr.fields.iter().any(starts) {
            self.twice(self.range(expr.span()));
        }
        visit::visit_expr_struct(self, expr);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        let guard = match &arm.pat {
            syn::Pat::Guard(pat) => Some(self.range(pat.guard.span())),
            _ => None,
        };
        let pattern = self.range(arm.pat.span());
        match (self.genre, guard) {
            ("MatchArm", Some(guard)) if pattern.start == self.wanted.start => self.guard(guard),
            ("MatchArm", None) if pattern.start == self.wanted.start => {
                self.edit = Some(Edit {
                    range: pattern.end..pattern.end,
                    text: format!(" if !{}", self.on),
                });
            }
            ("MatchArmGuard", Some(guard)) if guard == self.wanted => self.guard(guard),
            _ => {}
        }
        visit::visit_arm(self, arm);
    }
}

/// A file with some edits that do not meet.
pub fn edited(text: &str, edits: &[Edit]) -> String {
    let mut edits: Vec<&Edit> = edits.iter().collect();
    edits.sort_by_key(|edit| std::cmp::Reverse(edit.range.start));
    let mut text = text.to_owned();
    for edit in edits {
        text.replace_range(edit.range.clone(), &edit.text);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "fn f(a: u8, é: u8) -> bool {\n    let é = S { a, ..s };\n    match a {\n        \
                          1 if é > 2 => a + é == 3,\n        2 => !g(),\n        _ => false,\n    }\n}\n";

    /// The break of `genre` at the first place of `old`, as it is chosen and alone.
    fn both(genre: &str, old: &str, replacement: &str) -> [String; 2] {
        let at = SOURCE.find(old).unwrap();
        let place = |at: usize| {
            let line = SOURCE[..at].matches('\n').count() + 1;
            let column = SOURCE[..at].rsplit('\n').next().unwrap().chars().count() + 1;
            (line, column)
        };
        let one = Break {
            name: "kernel/mm/src/x.rs:4:9: a name: with colons".to_owned(),
            file: "kernel/mm/src/x.rs".to_owned(),
            diff: String::new(),
            genre: genre.to_owned(),
            replacement: replacement.to_owned(),
            span: [place(at), place(at + old.len())],
        };
        assert_eq!(one.lasting(), " a name: with colons");
        let file = syn::parse_file(SOURCE).unwrap();
        let chosen = one.chosen(SOURCE, &file, "on(7)").expect("it is there");
        [chosen, one.alone(SOURCE)].map(|edit| {
            let text = edited(SOURCE, &[edit]);
            syn::parse_file(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
            let line = place(at).0 - 1;
            text.lines().nth(line).unwrap().trim().to_owned()
        })
    }

    #[test]
    fn operators() {
        let [chosen, alone] = both("BinaryOperator", "==", "!=");
        let expected = "1 if é > 2 => (if on(7) { a + é != 3 } else { a + é == 3 }),";
        assert_eq!(
            (chosen.as_str(), alone.as_str()),
            (expected, "1 if é > 2 => a + é != 3,")
        );
        let [chosen, alone] = both("UnaryOperator", "!", "");
        let expected = "2 => (if on(7) { g() } else { !g() }),";
        assert_eq!((chosen.as_str(), alone.as_str()), (expected, "2 => g(),"));
    }

    #[test]
    fn arms() {
        let [chosen, _] = both("MatchArm", "2 => !g(),", "");
        assert_eq!(chosen, "2 if !on(7) => !g(),");
        let [chosen, _] = both("MatchArm", "1 if é > 2 => a + é == 3,", "");
        assert_eq!(chosen, "1 if (!on(7) && (é > 2)) => a + é == 3,");
        let [chosen, alone] = both("MatchArmGuard", "é > 2", "true");
        let expected = (
            "1 if (on(7) || (é > 2)) => a + é == 3,",
            "1 if true => a + é == 3,",
        );
        assert_eq!((chosen.as_str(), alone.as_str()), expected);
    }

    #[test]
    fn values_and_fields() {
        let body = &SOURCE[SOURCE.find("let").unwrap()..SOURCE.rfind("\n}").unwrap()];
        let [chosen, alone] = both("FnValue", body, "true");
        assert_eq!(chosen, "if on(7) { return true; } let é = S { a, ..s };");
        assert_eq!(alone, "true");
        let [chosen, alone] = both("StructField", "a, ", "");
        assert_eq!(
            chosen,
            "let é = (if on(7) { S { ..s } } else { S { a, ..s } });"
        );
        assert_eq!(alone, "let é = S { ..s };");
    }
}
