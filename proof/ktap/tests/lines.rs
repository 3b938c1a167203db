//! Lines as other programs print them, and all lines there and back.

use ktap::{Line, Note, TestResult, Totals, diagnostics};
use proptest::prelude::*;

fn result<'a>(
    ok: bool,
    number: usize,
    name: &'a str,
    note: Option<Note<&'a str>>,
) -> Line<&'a str> {
    Line::Result(TestResult {
        ok,
        number,
        name,
        note,
    })
}

#[test]
fn lines_of_other_writers() {
    for (text, line) in [
        ("TAP version 13\r\n", Line::Version),
        ("1..0", Line::Plan(0)),
        (
            "ok 1 - a b # SKIP\r",
            result(true, 1, "a b", Some(Note::Skip(""))),
        ),
        (
            "ok 1 a # SKIPPED",
            result(true, 1, "a", Some(Note::Text("SKIPPED"))),
        ),
        (
            "not ok 12 -a # 7 us",
            result(false, 12, "a", Some(Note::Micros(7))),
        ),
        (
            "ok 3 # SKIP no disk",
            result(true, 3, "", Some(Note::Skip("no disk"))),
        ),
        (
            "ok 3 # many us",
            result(true, 3, "", Some(Note::Text("many us"))),
        ),
        ("#no space", Line::Diagnostic("no space")),
        ("# start  mm.a ", Line::Start("mm.a")),
        ("# started", Line::Diagnostic("started")),
    ] {
        assert_eq!(Line::read(text), Some(line), "{text:?}");
    }
}

#[test]
fn other_lines() {
    for text in [
        "",
        "okay 1 x",
        "ok then",
        "not ok",
        "1..x",
        "[ 0.1] ok 1 x",
        " ok 1 nested",
        "KTAP",
    ] {
        assert_eq!(Line::read(text), None, "{text:?}");
    }
}

#[test]
fn each_line_of_a_diagnostic_is_one() {
    let mut out = String::new();
    diagnostics(&mut out, format_args!("one {}\n\nthree", "a\nb")).expect("a string has room");
    assert_eq!(out, "# one a\n# b\n# \n# three\n");
}

#[test]
fn totals() {
    let totals = Totals {
        passed: 5,
        failed: 1,
        skipped: 2,
    };
    assert_eq!(totals.to_string(), "Totals: pass:5 fail:1 skip:2 error:0");
    assert_eq!((totals.status(), Totals::default().status()), (1, 0));
}

/// A name of words; numbers and signs may stand in it.
const NAME: &str = "[a-z_.:][a-z0-9_.:]{0,12}( [a-z0-9,()-]{1,8}){0,3}";

fn notes() -> impl Strategy<Value = Option<Note<String>>> {
    prop_oneof![
        Just(None),
        any::<u64>().prop_map(|time| Some(Note::Micros(time))),
        NAME.prop_map(|reason| Some(Note::Skip(reason))),
        Just(Some(Note::Skip(String::new()))),
        NAME.prop_map(|text| Some(Note::Text(text))),
    ]
}

fn lines() -> impl Strategy<Value = Line<String>> {
    let results = (any::<bool>(), any::<usize>(), NAME, notes());
    prop_oneof![
        Just(Line::Version),
        any::<usize>().prop_map(Line::Plan),
        NAME.prop_map(Line::Start),
        NAME.prop_map(Line::Listed),
        NAME.prop_filter("looks like another line", |text| !text
            .starts_with("start ")
            && !text.starts_with("test "))
            .prop_map(Line::Diagnostic),
        results.prop_map(|(ok, number, name, note)| Line::Result(TestResult {
            ok,
            number,
            name,
            note
        })),
    ]
}

proptest! {
    /// What is printed reads as what it was, with any line end.
    #[test]
    fn there_and_back(line in lines(), end in prop_oneof!["", "\n", "\r\n"]) {
        let text = format!("{line}{end}");
        let read = Line::read(&text).expect("a line that was printed");
        // One holds `String`s and the other `&str`s.
        prop_assert_eq!(format!("{read:?}"), format!("{line:?}"));
    }

    /// Any text is a line or none, and a line that was read prints as one that reads the same.
    #[test]
    fn any_text(text in "(ok |not ok |# |1\\.\\.|KTAP version |)\\PC{0,30}") {
        if let Some(line) = Line::read(&text) {
            let printed = line.to_string();
            prop_assert_eq!(Line::read(&printed), Some(line));
        }
    }
}
