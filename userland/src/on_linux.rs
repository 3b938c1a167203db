//! The programs on the host: what they print, what they refuse, and that the shell works.
use std::process::{Command, Output};
use std::sync::LazyLock;

/// Where a program is: of those that Quire's image carries, which run here, too. They are built as
/// `./run.sh` builds them when the first is asked for; `cargo test` need not build any for this
/// host. `selftests` itself is run here by `./run.sh test` (`host.selftests`).
fn built(name: &str) -> &'static str {
    const NAMES: [&str; 11] = [
        "bench",
        "cow",
        "folios",
        "latency",
        "memtour",
        "orders",
        "selftests",
        "sh",
        "snapshot",
        "speedup",
        "torture",
    ];
    static PROGRAMS: LazyLock<[(&str, String); NAMES.len()]> = LazyLock::new(|| {
        // TARGET/PROFILE/deps/userland-*
        let this = std::env::current_exe().expect("this program's path");
        let target = this.ancestors().nth(3).expect("the folder of all builds");
        let triple = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
        let mut cargo = Command::new("cargo");
        cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
        cargo.env("CARGO_INCREMENTAL", "1");
        cargo.args(["build", "--profile=user", "--target", &triple]);
        cargo.arg("--target-dir").arg(target);
        cargo.args(NAMES.map(|name| format!("--bin={name}")));
        let output = cargo.output().expect("cargo starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        let folder = target.join(&triple).join("user");
        NAMES.map(|name| (name, folder.join(name).display().to_string()))
    });
    let found = PROGRAMS.iter().find(|(one, _)| *one == name);
    &found.expect("one of NAMES").1
}

fn run(program: &str, args: &[&str]) -> Output {
    Command::new(program)
        .args(args)
        .output()
        .expect("the program starts")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn selftests_are_chosen_by_pattern() {
    let program = built("selftests");
    let all = text(&run(program, &["--list"]));
    assert!(all.lines().count() > 200);
    let some = text(&run(program, &["--list", "pipe_*"]));
    assert!(some.lines().count() > 5 && some.lines().all(|l| l.starts_with("pipe_")));
    assert!(!run(program, &["no_such_test"]).status.success());
    assert_eq!(run(program, &["--nothing"]).status.code(), Some(2));
}

#[test]
fn shell_runs_commands() {
    let sh = built("sh");
    let dir = std::env::temp_dir().join(format!("sh-test-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    let script = format!(
        "cd {}; echo one >f; echo two >>f; cat <f | cat | cat; X='a  b'; echo $X \"$X\"; false || echo or; \
         ls; nosuch 2>/dev/null; echo $?; sh -c 'exit 5'; echo $?; echo three 3>g >&3; cat g # end\nexit 7",
        dir.display()
    );
    let output = run(sh, &["-c", &script]);
    assert_eq!(text(&output), "one\ntwo\na b a  b\nor\nf\n127\n5\nthree\n");
    assert_eq!(output.status.code(), Some(7));
    std::fs::remove_dir_all(&dir).expect("removed");
}

#[test]
fn shell_is_a_command_by_the_name_of_a_link() {
    let dir = std::env::temp_dir().join(format!("sh-link-test-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    std::fs::write(dir.join("f"), "one\ntwo\nthree\n").expect("a file");
    let run = |name: &str, args: &[&str]| {
        let link = dir.join(name);
        std::os::unix::fs::symlink(built("sh"), &link).expect("a link");
        let mut command = Command::new(&link);
        let output = command.args(args).current_dir(&dir).output();
        output.expect("the command starts")
    };
    assert_eq!(text(&run("cat", &["f"])), "one\ntwo\nthree\n");
    assert_eq!(text(&run("head", &["-n", "1", "f"])), "one\n");
    assert_eq!(text(&run("grep", &["-c", "t", "f"])), "2\n");
    assert_eq!(text(&run("echo", &["a", "-c", "b"])), "a -c b\n");
    assert_eq!(run("false", &[]).status.code(), Some(1));
    assert!(!run("rm", &["no such file"]).status.success());
    std::fs::remove_dir_all(&dir).expect("removed");
}

#[test]
fn tour_shows_eight_steps_on_a_screen() {
    let output = run(built("memtour"), &[]);
    let said = text(&output);
    assert!(output.status.success());
    assert!(
        said.lines().count() <= 24 && said.lines().all(|l| l.chars().count() < 80),
        "{said}"
    );
    let write = said
        .lines()
        .find(|l| l.starts_with("write each page"))
        .unwrap_or_default();
    assert!(
        write.contains(" 256 ") && write.contains(" 1024 "),
        "{write}"
    );
}

#[test]
fn bench_prints_cells_and_refuses_nonsense() {
    let bench = built("bench");
    let output = run(bench, &["--op", "fault,cow-byte,mremap", "--size", "4"]);
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    for op in ["fault", "cow-byte", "mremap"] {
        let cell = format!("{{\"op\":\"{op}\",\"folio_kb\":4,");
        assert!(said.lines().any(|line| line.starts_with(&cell)), "{said}");
    }
    assert!(said.ends_with("{\"done\":true,\"cells\":3}\n"), "{said}");
    for wrong in [["--op", "nothing"], ["--size", "5"], ["--size", "x"]] {
        assert_eq!(run(bench, &wrong).status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn every_operation_of_the_bench_is_documented() {
    const PAGE: &str = include_str!("../../docs/operations.md");
    let listed = text(&run(built("bench"), &["--list"]));
    let field = |line: &str, name: &str| {
        let (_, rest) = line.split_once(&format!("\"{name}\":\"")).expect(name);
        rest.split_once('"').expect("a string").0.to_owned()
    };
    let row = |line: &str| format!("| `{}` | {} |", field(line, "op"), field(line, "about"));
    let rows: Vec<String> = listed.lines().map(row).collect();
    for row in &rows {
        assert!(PAGE.contains(row), "docs/operations.md lacks: {row}");
    }
    let documented = PAGE.lines().filter(|line| line.starts_with("| `")).count();
    assert_eq!(documented, rows.len());
}

#[test]
fn the_bench_replays_a_trace_and_marks_it() {
    let bench = built("bench");
    let arguments = ["--op", "replay,updates", "--size", "4", "--marks", "yes"];
    let said = text(&run(bench, &arguments));
    assert!(said.contains("\"mark\":\"replay@4"), "{said}");
    assert!(
        said.contains("{\"op\":\"updates\",\"folio_kb\":4,\"absent\":"),
        "{said}"
    );
    assert!(said.ends_with("{\"done\":true,\"cells\":1}\n"), "{said}");
    for wrong in [["--marks", "maybe"], ["--mapped", "pud"]] {
        assert_eq!(run(bench, &wrong).status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn torture_finds_nothing_wrong() {
    let torture = built("torture");
    let output = run(torture, &["--steps", "30000", "--seed", "1"]);
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("done, seed 1: nothing wrong"), "{said}");
    for play in ["touches", "signals", "tokens passed", "processes ended"] {
        assert!(said.contains(play), "no {play}: {said}");
    }
    let wrong: &[&[&str]] = &[
        &["x"],
        &["--seed"],
        &["--steps", "x"],
        &["--processes", "0"],
        &["--threads", "65"],
        &["--plays", "chess"],
        &["--processes", "9", "--threads", "64"],
    ];
    for wrong in wrong {
        assert_eq!(run(torture, wrong).status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn threads_that_compute_are_measured() {
    let speedup = built("speedup");
    let said = text(&run(speedup, &["2"]));
    let times = said.strip_prefix("speedup: 2 threads, ");
    let times = times.and_then(|rest| rest.strip_suffix(" times\n"));
    assert!(
        times.is_some_and(|n| n.parse().is_ok_and(|n: f64| n > 0.3)),
        "{said}"
    );
    assert_eq!(run(speedup, &["0"]).status.code(), Some(2));
}

#[test]
fn folios_shows_what_was_touched() {
    let folios = built("folios");
    let said = text(&run(folios, &["3"]));
    let rss = said.lines().find_map(|line| line.strip_prefix("Rss:"));
    let kb = rss.and_then(|rest| rest.trim().strip_suffix(" kB"));
    assert!(
        kb.and_then(|kb| kb.parse().ok())
            .is_some_and(|kb: u64| kb >= 3072),
        "{said}"
    );
    for wrong in [
        &["x"][..],
        &["--pid"],
        &["--pid", "x"],
        &["--pid", "1", "2"],
    ] {
        assert_eq!(run(folios, wrong).status.code(), Some(2), "{wrong:?}");
    }
    let nobody = run(folios, &["--pid", "999999999"]);
    assert_eq!(nobody.status.code(), Some(1));
    // Root may see it all, others no frames.
    let pid = std::process::id().to_string();
    let own = run(folios, &["--pid", &pid]);
    match own.status.success() {
        true => assert!(text(&own).contains(&format!("all areas of {pid}\n"))),
        false => assert!(String::from_utf8_lossy(&own.stderr).contains("EPERM")),
    }
}

#[test]
fn cow_replays_the_cases_of_a_size() {
    let cow = built("cow");
    let all = text(&run(cow, &["--list"]));
    assert!(all.lines().count() > 100 && all.lines().all(|l| l.starts_with("replay_")));
    let output = run(cow, &["--keep", "replay_4k_*"]);
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("ok 1 replay_4k_parent_first #"), "{said}");
    assert!(!run(cow, &["--keep", "no_such_case"]).status.success());
    assert_eq!(run(cow, &["--nothing"]).status.code(), Some(2));
}

#[test]
fn a_store_is_saved_as_it_was() {
    let program = built("snapshot");
    let file = std::env::temp_dir().join(format!("snapshot-test-{}", std::process::id()));
    let path = file.display().to_string();
    for more in [&[][..], &["--to", path.as_str(), "--seed", "9"]] {
        let arguments = [&["--table", "4", "--size", "4"], more].concat();
        let output = run(program, &arguments);
        assert!(output.status.success(), "{output:?}");
        let said = text(&output);
        assert!(said.contains("\n{\"done\":true,\"cells\":1}\n"), "{said}");
        // The one way of this kernel, which does not count the pages that it copies.
        assert!(said.contains("\"op\":\"snapshot=kernel/4\","), "{said}");
        assert!(said.contains("\"writes\":256,"), "{said}");
        assert!(said.contains("\"pages_copied\":null,"), "{said}");
    }
    // Three of four slots of 64 bytes.
    let length = std::fs::metadata(&file).expect("a file").len();
    assert_eq!(length, 3 << 20);
    std::fs::remove_file(&file).expect("removed");
    assert_eq!(run(program, &["--size", "5"]).status.code(), Some(2));
}

#[test]
fn latencies_are_measured() {
    let program = built("latency");
    let output = run(program, &["--size", "4", "--samples", "8"]);
    let said = text(&output);
    assert!(output.status.success(), "{output:?}");
    // Ten events and the clock; the sets of sizes are not Linux's.
    assert!(said.contains("\n{\"done\":true,\"cells\":11}\n"), "{said}");
    assert!(said.contains("\n{\"op\":\"latency=first\","), "{said}");
    assert_eq!(run(program, &["--event", "nothing"]).status.code(), Some(2));
    assert_eq!(run(program, &["--samples", "0"]).status.code(), Some(2));
    let orders = built("orders");
    assert_eq!(run(orders, &[]).status.code(), Some(2));
}
