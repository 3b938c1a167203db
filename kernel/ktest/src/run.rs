//! Runs what a [`Plan`] says and prints KTAP 1.
use crate::plan::Name;
use crate::registry::{TESTS, Test, in_order};
use crate::{Context, Failure, Outcome, Plan};
use core::any::Any;
use core::fmt::{self, Write};

/// What the harness lends to the tests.
pub struct Hooks<'a> {
    /// Nanoseconds of a clock that never goes back.
    pub clock: &'a dyn Fn() -> u64,
    /// Free page frames now; a test that ends with fewer than it began with, beyond its slack,
    /// fails.
    pub free_frames: &'a dyn Fn() -> u64,
    /// The machine under test, for [`Context::machine`].
    pub machine: Option<&'a dyn Any>,
}

/// How many tests ended in which way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Tests that returned `Ok` and leaked nothing.
    pub passed: usize,
    /// Tests that did not.
    pub failed: usize,
    /// Tests that said they do not apply.
    pub skipped: usize,
}

impl Summary {
    /// The exit status of the machine: 0 when nothing failed, else 1.
    pub fn status(&self) -> u8 {
        u8::from(self.failed != 0)
    }
}

/// Runs the registered tests that `plan` wants, in order of their names.
pub fn run(plan: &Plan<'_>, hooks: &Hooks<'_>, out: &mut dyn Write) -> Summary {
    // The console is all there is: when writing to it fails, the summary still counts.
    run_these(&TESTS, plan, hooks, out, |body, ctx| body(ctx)).unwrap_or_default()
}

/// As [`run`], on the host: a test that panics fails, and the others go on.
#[cfg(feature = "std")]
pub fn run_on_host(plan: &Plan<'_>, hooks: &Hooks<'_>, out: &mut dyn Write) -> Summary {
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
) -> Result<Summary, fmt::Error> {
    let wanted = || {
        let mut behind = plan.after.is_none();
        in_order(tests).filter(move |test| {
            let name = Name::of(test);
            let chosen = behind && plan.wants(name.as_str());
            behind |= plan.after == Some(name.as_str());
            chosen
        })
    };
    let mut summary = Summary::default();
    if plan.list {
        for test in wanted() {
            writeln!(out, "# test {test}")?;
        }
        return Ok(summary);
    }
    writeln!(out, "KTAP version 1\n1..{}", wanted().count())?;
    for (number, test) in wanted().enumerate() {
        // The tool reads this line: when nothing follows it, this is the test that took the machine
        // with it.
        writeln!(out, "# start {test}")?;
        let started = (hooks.clock)();
        let outcome = run_one(test, hooks, out, &call);
        let micros = (hooks.clock)().saturating_sub(started) / 1000;
        let (word, number) = (
            if matches!(outcome, Err(Failure::Failed)) {
                "not ok"
            } else {
                "ok"
            },
            number + 1,
        );
        match outcome {
            Err(Failure::Skipped(reason)) => {
                writeln!(out, "{word} {number} {test} # SKIP {reason}")?
            }
            _ => writeln!(out, "{word} {number} {test} # {micros} us")?,
        }
        *match outcome {
            Ok(()) => &mut summary.passed,
            Err(Failure::Failed) => &mut summary.failed,
            Err(Failure::Skipped(_)) => &mut summary.skipped,
        } += 1;
    }
    let Summary {
        passed,
        failed,
        skipped,
    } = summary;
    writeln!(
        out,
        "# totals: {passed} passed, {failed} failed, {skipped} skipped"
    )?;
    Ok(summary)
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
