//! What code in the sandbox tries, and cannot do. Outside of it each succeeds.
use anyhow::{Result, ensure};
use course::lab::{self, Sandbox};
use std::net::TcpListener;
use std::process::Command;
use tools::host::outcome::Outcome;
use tools::host::workspace::{self, Temporary};

/// Lines for bash, of which each succeeds outside.
const TRIED: [(&str, &str); 9] = [
    ("reads a file of the system", "read -r _ </etc/passwd"),
    ("reads the checkout", "read -r _ <$ROOT/README.md"),
    ("reads a temporary file", "read -r _ <$SECRET"),
    ("writes a file", "echo >$FILE"),
    ("writes a temporary file", "echo >$SECRET"),
    ("lists a folder", "ls /etc"),
    ("connects", "exec 3<>/dev/tcp/127.0.0.1/$PORT"),
    ("sends a signal", "kill -0 $PARENT"),
    ("knows the environment", "test -n \"$QUIRE_CWD\""),
];

/// The same for a build, which has more.
const IN_BUILDS: [(&str, &str); 5] = [
    ("reads a file of the system", "read -r _ </etc/passwd"),
    ("reads a temporary file", "read -r _ <$SECRET"),
    ("writes to the checkout", "echo >$SOURCE"),
    ("writes to the copy of it", "echo >$COPY"),
    ("writes what others build", "echo >$FILE"),
];

/// Tries them.
pub fn run() -> Result<Outcome> {
    let sandbox = match Sandbox::of(false) {
        Ok(sandbox) => sandbox,
        // Who grades needs one, and so does CI; who only builds the kernel does not.
        Err(why) if std::env::var_os("CI").is_some() => return Err(why),
        Err(why) => return Ok(Outcome::Skipped(format!("{why:#}"))),
    };
    let secret = Temporary::file("secret", b"a line\n")?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let file = Temporary::within(&workspace::target(), "written");
    let source = Temporary::within(workspace::root(), "written");
    let copy = Temporary::within(&lab::copy()?, "written");
    let bash = |line: &str| {
        let mut bash = Command::new("bash");
        bash.args(["-c", line]).env("ROOT", workspace::root());
        bash.env("FILE", file.path()).env("SOURCE", source.path());
        bash.env("COPY", copy.path());
        bash.env("SECRET", secret.path())
            .env("PORT", port.to_string());
        bash.env("PARENT", std::process::id().to_string());
        bash
    };
    let own = Temporary::folder("build")?;
    let builds = IN_BUILDS.map(|(what, line)| (what, line, true));
    let programs = TRIED.map(|(what, line)| (what, line, false));
    for (what, line, of_build) in builds.into_iter().chain(programs) {
        let outside = bash(line).output()?;
        ensure!(
            outside.status.success(),
            "outside, nobody {what}: {outside:?}"
        );
        let mut inside = match of_build {
            true => sandbox.build(bash(line), own.path(), 10),
            false => sandbox.program(bash(line), 10),
        };
        let inside = inside.output()?;
        ensure!(
            !inside.status.success(),
            "in the sandbox, somebody {what}: {inside:?}"
        );
    }
    let limits = sandbox
        .program(bash("ulimit -v; ulimit -c; ulimit -t"), 10)
        .output()?;
    let limits = String::from_utf8_lossy(&limits.stdout).into_owned();
    ensure!(limits == "4194304\n0\n10\n", "limits: {limits}");
    let mut endless = sandbox.program(bash("while :; do :; done"), 1);
    let ended = endless.output()?.status;
    ensure!(lab::is_late(ended), "a loop ended with {ended}");
    Ok(Outcome::Passed)
}
