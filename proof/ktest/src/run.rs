//! Runs the tests of a [`Plan`] and prints KTAP 1.
use crate::plan::PrintedName;
use crate::registry::{TESTS, Test, in_order};
use crate::{Context, Failure, Outcome, Plan};
use core::any::Any;
use core::fmt::{self, Display, Write};
use ktap::{Line, Note, TestResult, Totals};

/// The functions and the machine that the harness provides to the tests.
pub struct Hooks<'a> {
    /// Nanoseconds of a clock that never goes back.
    pub clock: &'a dyn Fn() -> u64,
    /// Free page frames now; a test that ends with fewer than it began with, beyond its slack,
    /// fails.
    pub free_frames: &'a dyn Fn() -> u64,
    /// The machine under test, for [`Context::machine`].
    pub machine: Option<&'a dyn Any>,
}

/// Runs the registered tests that `plan` chooses, in order of their names.
pub fn run(plan: &Plan<'_>, hooks: &Hooks<'_>, out: &mut dyn Write) -> Totals {
    // The console is all there is: an error in writing to it can be shown nowhere.
    run_these(&TESTS, plan, hooks, out, |body, ctx| body(ctx)).unwrap_or_default()
}

/// As [`run`], on the host: a test that panics fails, and the others still run.
#[cfg(feature = "std")]
pub fn run_on_host(plan: &Plan<'_>, hooks: &Hooks<'_>, out: &mut dyn Write) -> Totals {
    run_these(&TESTS, plan, hooks, out, catching).unwrap_or_default()
}

type Body = fn(&mut Context<'_>) -> Outcome;

#[cfg(feature = "std")]
fn catching(body: Body, ctx: &mut Context<'_>) -> Outcome {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    catch_unwind(AssertUnwindSafe(|| body(ctx))).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| {
            payload
                .downcast_ref::<std::string::String>()
                .map(|text| text.as_str())
        });
        ctx.diag(format_args!(
            "panicked: {}",
            text.unwrap_or("with something that is not text")
        ));
        Err(Failure::Failed)
    })
}

fn run_these(
    tests: &[Test],
    plan: &Plan<'_>,
    hooks: &Hooks<'_>,
    out: &mut dyn Write,
    call: impl Fn(Body, &mut Context<'_>) -> Outcome,
) -> Result<Totals, fmt::Error> {
    let wanted = || {
        let mut behind = plan.after.is_none();
        in_order(tests).filter(move |test| {
            let name = PrintedName::of(test);
            let chosen = behind && plan.wants(name.as_str());
            behind |= plan.after == Some(name.as_str());
            chosen
        })
    };
    let mut totals = Totals::default();
    if plan.list {
        for test in wanted() {
            print(out, Line::Listed(test))?;
        }
        return Ok(totals);
    }
    print(out, Line::Version)?;
    print(out, Line::Plan(wanted().count()))?;
    for (before, test) in wanted().enumerate() {
        print(out, Line::Start(test))?;
        let started = (hooks.clock)();
        let outcome = run_one(test, hooks, out, &call);
        let micros = (hooks.clock)().saturating_sub(started) / 1000;
        let result = TestResult::<&dyn Display> {
            ok: !matches!(outcome, Err(Failure::Failed)),
            number: before + 1,
            name: test,
            note: Some(match &outcome {
                Err(Failure::Skipped(reason)) => Note::Skip(reason),
                _ => Note::Micros(micros),
            }),
        };
        print(out, Line::Result(result))?;
        *match outcome {
            Ok(()) => &mut totals.passed,
            Err(Failure::Failed) => &mut totals.failed,
            Err(Failure::Skipped(_)) => &mut totals.skipped,
        } += 1;
    }
    print(out, Line::Diagnostic(&totals))?;
    Ok(totals)
}

fn print(out: &mut dyn Write, line: Line<&dyn Display>) -> fmt::Result {
    writeln!(out, "{line}")
}

/// One test, with free frames compared before and after.
fn run_one(
    test: &Test,
    hooks: &Hooks<'_>,
    out: &mut dyn Write,
    call: &impl Fn(Body, &mut Context<'_>) -> Outcome,
) -> Outcome {
    let before = (hooks.free_frames)();
    let mut ctx = Context {
        out,
        machine: hooks.machine,
        frames: hooks.free_frames,
    };
    call(test.body, &mut ctx)?;
    let after = (hooks.free_frames)();
    if after + test.slack < before {
        ctx.diag(format_args!(
            "leaks {} frames: {before} free before, {after} after",
            before - after
        ));
        return Err(Failure::Failed);
    }
    Ok(())
}
