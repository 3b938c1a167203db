//! The commands that need no program.
use super::exec::default_signals;
use super::output::{complain, done, print};
use super::parse::is_name;
use super::shell::Shell;
use super::{jobs, look, text};
use crate::sys::{Errno, proc, time};
use std::fs;

/// A command: the shell and the arguments behind the name to a status.
pub type Run = fn(&mut Shell, &[String]) -> i32;

/// A command that needs no program.
pub struct Builtin {
    name: &'static str,
    /// Runs it.
    pub run: Run,
    /// Under job control it gets a process of its own: ^C and ^Z are for it.
    pub apart: bool,
    help: &'static str,
}

/// A command that ends at once, or changes the shell itself.
const fn quick(name: &'static str, run: Run, help: &'static str) -> Builtin {
    Builtin {
        name,
        run,
        apart: false,
        help,
    }
}

/// A command that may take long and does not change the shell.
const fn long(name: &'static str, run: Run, help: &'static str) -> Builtin {
    Builtin {
        apart: true,
        ..quick(name, run, help)
    }
}

const ALL: &[Builtin] = &[
    quick(
        "bg",
        jobs::bg,
        "[%N]  let a stopped job run in the background",
    ),
    long("cat", text::cat, "[FILE ...]  print files"),
    quick("cd", cd, "[DIR]  change the directory"),
    quick("clear", text::clear, "empty the screen"),
    quick(
        "echo",
        echo,
        "[-n] [WORD ...]  print words; echo WORD >FILE changes a switch in /proc or /sys",
    ),
    quick("env", env, "print the environment"),
    quick("exec", exec, "PROGRAM [WORD ...]  become a program"),
    quick(
        "exit",
        exit,
        "[N]  leave the shell; the first shell's end switches the machine off",
    ),
    quick(
        "export",
        export,
        "NAME[=VALUE] ...  set variables for programs",
    ),
    quick("false", |_, _| 1, "fail"),
    quick("fg", jobs::fg, "[%N]  fetch a job into the foreground"),
    quick("free", |_, _| look::free(), "memory in use"),
    long(
        "grep",
        text::grep,
        "[-c] [-i] [-n] [-v] PATTERN [FILE ...]  print the lines that match",
    ),
    long(
        "head",
        text::head,
        "[-n N] [FILE ...]  print the first lines",
    ),
    quick("help", help, "this list"),
    quick(
        "jobs",
        jobs::jobs,
        "what runs in the background or is stopped",
    ),
    quick("kill", kill, "[-SIGNAL] PID|%N ...  send a signal"),
    quick(
        "ls",
        |_, args| look::ls(args),
        "[-a] [-l] [FILE ...]  list files",
    ),
    quick(
        "mkdir",
        |_, args| each(args, |p| fs::create_dir(p)),
        "DIR ...  make directories",
    ),
    long(
        "more",
        text::more,
        "[FILE ...]  print files a screen at a time",
    ),
    quick("mount", mount, "TYPE DIR  mount a file system"),
    quick("mv", mv, "OLD NEW  rename a file"),
    quick("ps", |_, _| look::ps(), "processes"),
    quick("pwd", pwd, "print the directory"),
    quick(
        "rm",
        |_, args| each(args, |p| fs::remove_file(p)),
        "FILE ...  remove files",
    ),
    quick(
        "rmdir",
        |_, args| each(args, |p| fs::remove_dir(p)),
        "DIR ...  remove empty directories",
    ),
    quick("set", set, "print all variables"),
    long("sleep", sleep, "SECONDS  wait"),
    long(
        "tail",
        text::tail,
        "[-n N] [FILE ...]  print the last lines",
    ),
    quick("true", |_, _| 0, "succeed"),
    quick("unset", unset, "NAME ...  forget variables"),
    quick(
        "wait",
        jobs::wait,
        "[PID|%N ...]  wait for background commands",
    ),
];

/// Commands that are files of `/bin` as well, one a line: links to the shell. The program that
/// packs `/bin` reads the list, too.
pub const FILES: &str = include_str!("files.txt");

/// The command to run when the shell was started as one of [`FILES`], by the path of a link.
pub fn of_link(path: &str) -> Option<&'static Builtin> {
    let name = path.rsplit('/').next()?;
    find(name).filter(|_| FILES.lines().any(|file| file == name))
}

/// The built-in of this name.
pub fn find(name: &str) -> Option<&'static Builtin> {
    ALL.iter().find(|builtin| builtin.name == name)
}

/// The names of all.
pub fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|builtin| builtin.name)
}

fn each(paths: &[String], act: impl Fn(&str) -> std::io::Result<()>) -> i32 {
    let mut status = 0;
    for path in paths {
        status |= done(path, act(path).map_err(Errno::from));
    }
    status
}

fn echo(_: &mut Shell, args: &[String]) -> i32 {
    let (end, words) = match args.first().map(String::as_str) {
        Some("-n") => ("", &args[1..]),
        _ => ("\n", args),
    };
    // One write: a switch in /sys takes its whole value at once.
    print(&format!("{}{end}", words.join(" ")))
}

fn cd(sh: &mut Shell, args: &[String]) -> i32 {
    let home = sh.vars.get("HOME").map_or("/", |v| v.0.as_str());
    let to = args.first().map_or(home, String::as_str);
    done(to, std::env::set_current_dir(to).map_err(Errno::from))
}

fn pwd(_: &mut Shell, _: &[String]) -> i32 {
    match std::env::current_dir() {
        Ok(dir) => print(&format!("{}\n", dir.display())),
        Err(e) => done("pwd", Err(e.into())),
    }
}

fn exit(sh: &mut Shell, args: &[String]) -> i32 {
    if !sh.may_leave() {
        return 1;
    }
    sh.leaving = true;
    match args.first() {
        None => sh.status,
        Some(n) => n.parse::<i32>().map_or(2, |n| n & 0xff),
    }
}

fn exec(sh: &mut Shell, args: &[String]) -> i32 {
    if args.is_empty() {
        return 0;
    }
    default_signals();
    sh.exec(args)
}

fn env(sh: &mut Shell, _: &[String]) -> i32 {
    print(
        &sh.vars
            .iter()
            .filter(|v| v.1.1)
            .map(|(n, v)| format!("{n}={}\n", v.0))
            .collect::<String>(),
    )
}

fn set(sh: &mut Shell, _: &[String]) -> i32 {
    print(
        &sh.vars
            .iter()
            .map(|(n, v)| format!("{n}={}\n", v.0))
            .collect::<String>(),
    )
}

fn export(sh: &mut Shell, args: &[String]) -> i32 {
    for arg in args {
        let (name, value) = match arg.split_once('=') {
            Some((n, v)) => (n, Some(v.to_string())),
            None => (arg.as_str(), None),
        };
        if !is_name(name) {
            complain(&format!("{name}: not a name"));
            return 1;
        }
        let slot = sh.vars.entry(name.into()).or_default();
        slot.1 = true;
        slot.0 = value.unwrap_or(std::mem::take(&mut slot.0));
    }
    0
}

fn unset(sh: &mut Shell, args: &[String]) -> i32 {
    args.iter().for_each(|n| drop(sh.vars.remove(n)));
    0
}

fn sleep(_: &mut Shell, args: &[String]) -> i32 {
    match args
        .first()
        .and_then(|s| s.parse::<f64>().ok())
        .filter(|s| (0.0..1e9).contains(s))
    {
        Some(s) if time::sleep((s * 1e9) as u64).is_ok() => 0,
        Some(_) => 130,
        None => {
            complain("sleep: how many seconds?");
            2
        }
    }
}

fn kill(sh: &mut Shell, args: &[String]) -> i32 {
    let (sig, pids) = match args.first().and_then(|a| a.strip_prefix('-')) {
        Some(name) => (look::signal_number(name), &args[1..]),
        None => (Some(libc::SIGTERM), args),
    };
    let Some(sig) = sig else {
        complain(&format!("kill: {}: no such signal", args[0]));
        return 2;
    };
    if pids.is_empty() {
        complain("kill: which process?");
        return 2;
    }
    let mut status = 0;
    for pid in pids {
        status |= match (pid.starts_with('%'), pid.parse()) {
            (true, _) => done(pid, sh.kill_job(pid, sig)),
            (false, Ok(n)) => done(pid, proc::kill(n, sig)),
            (false, Err(_)) => done(pid, Err(Errno(libc::EINVAL))),
        };
    }
    status
}

fn mount(sh: &mut Shell, args: &[String]) -> i32 {
    match args {
        [kind, dir] => done(dir, proc::mount(kind, dir, kind, 0)),
        _ => text::cat(sh, &["/proc/mounts".into()]),
    }
}

fn mv(_: &mut Shell, args: &[String]) -> i32 {
    match args {
        [old, new] => done(old, fs::rename(old, new).map_err(Errno::from)),
        _ => done("mv", Err(Errno(libc::EINVAL))),
    }
}

fn help(_: &mut Shell, _: &[String]) -> i32 {
    let mut text = String::new();
    for builtin in ALL {
        text += &format!("{:<8}{}\n", builtin.name, builtin.help);
    }
    text += "time    PIPELINE  say how long it takes\n";
    text += "Signs: a|b  a;b  a&&b  a||b  a&  !a  <f >f >>f 2>f 2>&1  'q' \"q\" \\c  $NAME $? $$  * ?  #\n";
    text += "Keys: arrows for lines typed before and within the line, ^R searches them, ^C ends a program, ^Z stops it.\n";
    text += "Programs are in /bin: memtour shows the memory manager at work, selftests tests it, cost measures.\n";
    print(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_a_command() {
        for name in FILES.lines() {
            let of_link = |path: &str| of_link(path).is_some_and(|found| found.name == name);
            assert!(of_link(name) && of_link(&format!("/bin/{name}")), "{name}");
        }
    }

    /// What changes the shell that it runs in is of no use as a program.
    #[test]
    fn other_names_are_the_shell() {
        for name in ["sh", "/bin/sh", "-sh", "cd", "exit", "export", "", "/"] {
            assert!(of_link(name).is_none(), "{name}");
        }
    }
}
