//! Submissions as they come: right and slow, wrong in all ways, hostile. Each is made from the
//! answer or the skeleton of lab 1, and graded as what it is.
use super::LIMITS;
use anyhow::{Context, Result, ensure};
use course::lab::{self, Lab, Limits, Sandbox, Submission};
use std::fs;
use std::ops::RangeInclusive;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;
use tools::host::arch::Arch;
use tools::host::workers;
use tools::host::workspace::Temporary;

/// A submission: its name; its solution, its tests; which points it gets, and words that tell why
/// it does not get all.
type MadeUp = (
    &'static str,
    Text,
    Text,
    RangeInclusive<f64>,
    &'static [&'static str],
);

/// A file.
#[derive(Clone, Copy)]
enum Text {
    /// As it was handed out.
    Skeleton,
    /// The answer's.
    Answer,
    /// The tests that come with the lab.
    Ours,
    /// The answer's, with these words in the place of those.
    But(&'static str, &'static str),
    /// This.
    Own(&'static str),
    /// So many brackets in brackets.
    Brackets(usize),
    /// A link to the answer's.
    Link,
}
use Text::{Answer, Brackets, But, Link, Ours, Own, Skeleton};

/// What the answer begins with, to put something before it.
const BEGIN: &str = "pub fn order(facts: &Facts) -> u8 {";

const MADE_UP: [MadeUp; 38] = [
    (
        "nothing done",
        Skeleton,
        Skeleton,
        0.0..=0.0,
        &["order 0 where order 4 fits"],
    ),
    (
        "right and slow, no tests",
        But(
            BEGIN,
            "let mut n = 0u64; while core::hint::black_box(n) < 3000 { n += 1; }",
        ),
        Skeleton,
        60.0..=60.0,
        &["instructions per page", "tests.rs has none"],
    ),
    (
        "wrong only at real addresses",
        But(
            BEGIN,
            // No machine allows pages of 8 kB: wrong whatever the program's areas are.
            "if facts.page > 1 << 24 { return 1; }",
        ),
        Answer,
        0.0..=75.0,
        &["the kernel panicked: lab: order 1"],
    ),
    (
        "loops only at real addresses",
        But(
            BEGIN,
            "while core::hint::black_box(facts.page) > 1 << 24 {}",
        ),
        Answer,
        0.0..=75.0,
        &["the machine did not end"],
    ),
    (
        "does not compile",
        Own("pub fn order(facts: &super::Facts) -> u8 { facts.order }"),
        Answer,
        0.0..=0.0,
        &["no field `order`"],
    ),
    (
        "is no program",
        Own("Dear grader, please give me full points."),
        Answer,
        0.0..=0.0,
        &["does not compile"],
    ),
    (
        "loops",
        Own("pub fn order(_: &super::Facts) -> u8 { loop {} }"),
        Answer,
        0.0..=20.0,
        &["had not ended after"],
    ),
    (
        "panics",
        Own("pub fn order(_: &super::Facts) -> u8 { todo!() }"),
        Answer,
        0.0..=20.0,
        &["not yet implemented"],
    ),
    (
        "takes all memory",
        Own(
            "pub fn order(_: &super::Facts) -> u8 { let mut v = alloc::vec::Vec::new(); loop { v.push([1u64; 1 << 20]); } }",
        ),
        Answer,
        0.0..=20.0,
        &["it ended the program"],
    ),
    (
        "takes all of the stack",
        Own(
            "pub fn order(f: &super::Facts) -> u8 { core::hint::black_box(f); order(f).wrapping_add(core::hint::black_box(1)) }",
        ),
        Answer,
        0.0..=20.0,
        &["it ended the program"],
    ),
    (
        "unsafe",
        Own("pub fn order(_: &super::Facts) -> u8 { unsafe { *(8 as *const u8) } }"),
        Answer,
        0.0..=0.0,
        &["`unsafe` is not allowed"],
    ),
    (
        "ends the program",
        Own("pub fn order(_: &super::Facts) -> u8 { std::process::exit(0) }"),
        Answer,
        0.0..=0.0,
        &["`std` is not allowed"],
    ),
    (
        "reads the answer",
        Own("mod stolen { include!(\"answer/solution.rs\"); } pub use stolen::order;"),
        Answer,
        0.0..=0.0,
        &["`include` is not allowed"],
    ),
    (
        "asks the answer",
        Own("pub fn order(f: &super::Facts) -> u8 { super::answer_key::order(f) }"),
        Answer,
        0.0..=0.0,
        &["`answer_key` is not allowed"],
    ),
    (
        "asks the answer by its type",
        Own("use super::Policy; pub fn order(f: &super::Facts) -> u8 { super::Answer.order(f) }"),
        Answer,
        0.0..=0.0,
        &["cannot find value `Answer`"],
    ),
    (
        "names a file",
        Own("#[path = \"answer/solution.rs\"] mod stolen; pub use stolen::order;"),
        Answer,
        0.0..=0.0,
        &["#[path] is not allowed"],
    ),
    (
        "prints a result",
        Own("pub fn order(_: &super::Facts) -> u8 { panic!(\"{{\\\"done\\\":8}}\") }"),
        Answer,
        0.0..=20.0,
        &["{\"done\":8}"],
    ),
    (
        "an order that there is not",
        Own("pub fn order(_: &super::Facts) -> u8 { 255 }"),
        Answer,
        0.0..=20.0,
        &["not among the allowed orders"],
    ),
    (
        "the largest, wherever it is",
        Own("pub fn order(f: &super::Facts) -> u8 { f.orders.checked_ilog2().unwrap_or(0) as u8 }"),
        Answer,
        20.0..=35.0,
        &["reaches out of the area"],
    ),
    (
        "forgets the page table",
        But("facts.pmd_absent", "true"),
        Answer,
        20.0..=55.0,
        &["there is a page table in its place"],
    ),
    (
        "tests that fail on what is right",
        Skeleton,
        Own(
            "pub const TESTS: &[super::Test] = &[super::Test { asks: \"all\", points: 0, run: |_| panic!(\"no\") }];",
        ),
        0.0..=0.0,
        &["\"all\" fails on a right solution: tests.rs"],
    ),
    (
        "tests that loop",
        Skeleton,
        Own(
            "pub const TESTS: &[super::Test] = &[super::Test { asks: \"all\", points: 0, run: |_| loop {} }];",
        ),
        0.0..=0.0,
        &["had not ended after"],
    ),
    (
        "tests that know which is which",
        Skeleton,
        Own(
            "pub const TESTS: &[super::Test] = &[super::Test { asks: \"all\", points: 0, run: |_| assert!(super::subject_by_name(\"answer\", 0, &mut |_| ())) }];",
        ),
        0.0..=0.0,
        &["`subject_by_name` is not allowed"],
    ),
    (
        "the lab's own tests",
        Skeleton,
        Ours,
        0.0..=0.0,
        &["0 of 6 broken solutions that the lab's tests miss are found"],
    ),
    (
        "tests that ask for those that are held back",
        Skeleton,
        Own("pub const TESTS: &[super::Test] = super::held_back::TESTS;"),
        0.0..=0.0,
        &["`held_back` is not allowed"],
    ),
    (
        "a first line that the compiler passes over",
        Own("#!\"\nextern crate std;\npub fn order(_: &super::Facts) -> u8 { 0 }"),
        Answer,
        0.0..=0.0,
        &["a solution is no script"],
    ),
    (
        "a module beside it",
        Own("mod x; pub use x::order;"),
        Answer,
        0.0..=0.0,
        &["a module of another file is not allowed"],
    ),
    (
        "a module by a macro",
        Own("macro_rules! m { ($($t:tt)*) => { $($t)* ; } } m!(mod x); pub use x::order;"),
        Answer,
        0.0..=0.0,
        &["a module of another file is not allowed"],
    ),
    (
        "an attribute by a macro",
        Own("macro_rules! m { ($a:meta) => { #[$a] mod x {} } } m!(path = \"x.rs\");"),
        Answer,
        0.0..=0.0,
        &["#[$] is not allowed"],
    ),
    (
        "a link to the answer",
        Link,
        Answer,
        0.0..=0.0,
        &["solution.rs, it is not a regular file"],
    ),
    (
        "tests that are a link",
        Skeleton,
        Link,
        0.0..=0.0,
        &["tests.rs, it is not a regular file"],
    ),
    (
        "brackets",
        Brackets(200_000),
        Answer,
        0.0..=0.0,
        &["it has more than"],
    ),
    (
        "brackets in a small file",
        Brackets(100_000),
        Answer,
        0.0..=0.0,
        &["brackets stand more than 100 deep"],
    ),
    (
        "a macro that doubles what it is given",
        Own("macro_rules! m { ($($t:tt)*) => { m!($($t)* $($t)*); } } m!(a);"),
        Answer,
        0.0..=0.0,
        &["does not compile"],
    ),
    (
        "a constant without end",
        Own(
            "const X: u8 = { let mut i = 0u64; while i < 1 << 60 { i += 1; } i as u8 };
             pub fn order(_: &super::Facts) -> u8 { X }",
        ),
        Answer,
        0.0..=0.0,
        &["does not compile"],
    ),
    (
        "tests that measure a solution",
        Skeleton,
        Own(
            "pub const TESTS: &[super::Test] = &[super::Test { asks: \"size\", points: 0, run: |policy| assert_eq!(core::mem::size_of_val(policy), 0) }];",
        ),
        0.0..=0.0,
        &["\"size\" fails on a right solution"],
    ),
    (
        "tests that ask where a solution lies",
        Skeleton,
        Own(
            "pub const TESTS: &[super::Test] = &[super::Test { asks: \"place\", points: 0, run: |policy| assert!(policy as *const super::Subject as usize % 64 == 0) }];",
        ),
        0.0..=0.0,
        &["a raw pointer is not allowed"],
    ),
    (
        "tests that print where a solution lies",
        Skeleton,
        Own(
            "pub const TESTS: &[super::Test] = &[super::Test { asks: \"place\", points: 0, run: |policy| assert!(alloc::format!(\"{policy:p}\").ends_with('0')) }];",
        ),
        0.0..=0.0,
        &["{:p} is not allowed"],
    ),
];

/// Grades them side by side, every second one on each machine.
pub fn run(lab: &Lab, arch: Arch) -> Result<()> {
    // Whether there is one, host.labs.sandbox says; these are our own.
    let sandbox = Sandbox::of(false).unwrap_or(Sandbox::Open);
    let folder = Temporary::folder("submissions")?;
    let made_up: Vec<&MadeUp> = MADE_UP.iter().skip(arch as usize).step_by(2).collect();
    let mut dirs = Vec::new();
    for (at, (_, solution, tests, ..)) in made_up.iter().enumerate() {
        let dir = folder.path().join(at.to_string());
        fs::create_dir(&dir)?;
        make(lab, &dir, "solution.rs", *solution)?;
        make(lab, &dir, "tests.rs", *tests)?;
        dirs.push(dir);
    }
    let submissions: Vec<_> = made_up.iter().zip(&dirs).collect();
    let grades = workers::map(&submissions, workers::cpus(), |((.., words), dir)| {
        lab::grade(&Submission {
            sandbox,
            limits: limits(words),
            ..super::submission(lab, dir, &[arch])
        })
    });
    for ((name, _, _, points, words), grade) in made_up.into_iter().zip(grades) {
        let grade = grade.with_context(|| name.to_owned())?;
        let text = grade.text();
        ensure!(
            points.contains(&grade.total().0),
            "{name}, not {points:?} points:\n{text}"
        );
        ensure!(
            grade.total().1 == 100.0 && words.iter().all(|word| text.contains(word)),
            "{name}, not all of {words:?}:\n{text}"
        );
    }
    Ok(())
}

/// Less for what does not end: with any limit it is ended in the same way.
fn limits(words: &[&str]) -> Limits {
    match words.iter().any(|word| word.contains("not end")) {
        true => Limits {
            tests: Duration::from_secs(2),
            boot: Duration::from_secs(5),
            ..LIMITS
        },
        false => LIMITS,
    }
}

fn make(lab: &Lab, dir: &Path, file: &str, text: Text) -> Result<()> {
    let path = dir.join(file);
    let text = match text {
        Skeleton => fs::read_to_string(lab.folder().join(file))?,
        Answer => fs::read_to_string(lab.answer().join(file))?,
        But(old, new) => {
            let answer = fs::read_to_string(lab.answer().join(file))?;
            ensure!(answer.contains(old), "the answer has no {old:?}");
            // What is put at the beginning goes behind it.
            let kept = if old == BEGIN { old } else { "" };
            answer.replace(old, &format!("{kept}{new}"))
        }
        Ours => fs::read_to_string(lab.folder().join("public.rs"))?,
        Own(text) => text.to_owned(),
        Brackets(deep) => format!("fn f() {{ {}{} }}", "(".repeat(deep), ")".repeat(deep)),
        Link => return Ok(symlink(lab.answer().join(file), path)?),
    };
    Ok(fs::write(path, text)?)
}
