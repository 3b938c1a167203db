//! The harness run on tests that pass, fail, leak, panic and skip.
use ktest::{Hooks, Plan, Totals, check, check_eq, diag, ktest, skip};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

static FREE: AtomicU64 = AtomicU64::new(100);

ktest! {
    /// Passes, with a diagnostic.
    fn a_passes(ctx) {
        diag!(ctx, "two\nlines");
        check!(ctx, ctx.free_frames() == 100);
        check_eq!(ctx, ctx.machine::<u32>(), Some(&7));
    }
}
ktest! { fn b_fails(ctx) { check_eq!(ctx, 1 + 1, 3); } }
ktest! { fn c_leaks(_ctx) { FREE.fetch_sub(1, Relaxed); } }
ktest! { #[slack(2)] fn d_keeps_two(_ctx) { FREE.fetch_sub(2, Relaxed); } }
ktest! { fn e_panics(_ctx) { panic!("on purpose"); } }
ktest! { fn f_skips(_ctx) { skip!("not here"); } }

fn report(plan: &Plan<'_>) -> (Totals, String) {
    FREE.store(100, Relaxed);
    let mut out = String::new();
    let ticks = AtomicU64::new(0);
    let hooks = Hooks {
        clock: &|| ticks.fetch_add(1500, Relaxed),
        free_frames: &|| FREE.load(Relaxed),
        machine: Some(&7u32),
    };
    let totals = ktest::run_on_host(plan, &hooks, &mut out);
    (totals, out)
}

/// One test for all, because the free count above is shared.
#[test]
fn all_ways_to_end() {
    let (totals, out) = report(&Plan::ALL);
    assert_eq!(
        totals,
        Totals {
            passed: 2,
            failed: 3,
            skipped: 1
        },
        "{out}"
    );
    assert_eq!(totals.status(), 1);
    for line in [
        "KTAP version 1\n1..6\n# start harness.a_passes\n# two\n# lines\nok 1 harness.a_passes # 1 us\n",
        "1 + 1 is 2, but 3 is 3\nnot ok 2 harness.b_fails # 1 us\n",
        "# leaks 1 frames: 100 free before, 99 after\nnot ok 3 harness.c_leaks",
        "ok 4 harness.d_keeps_two",
        "# panicked: on purpose\nnot ok 5 harness.e_panics",
        "ok 6 harness.f_skips # SKIP not here",
        "# Totals: pass:2 fail:3 skip:1 error:0",
    ] {
        assert!(out.contains(line), "{line:?} is not in:\n{out}");
    }
    let (totals, out) = report(&Plan {
        after: Some("harness.b_fails"),
        skip: "*leaks,*panics",
        ..Plan::ALL
    });
    assert_eq!(
        totals,
        Totals {
            passed: 1,
            failed: 0,
            skipped: 1
        },
        "{out}"
    );
    let (_, out) = report(&Plan {
        filter: "*_passes",
        list: true,
        ..Plan::ALL
    });
    assert_eq!(out, "# test harness.a_passes\n");
}
