//! The commands that need no program.
use super::look;
use super::parse::is_name;
use super::run::{Shell, complain, pause};
use crate::sys::{Errno, file, proc};
use std::fs;

/// A command: the shell and the arguments behind the name to a status.
pub type Builtin = fn(&mut Shell, &[String]) -> i32;

const ALL: &[(&str, Builtin, &str)] = &[
    ("cat", cat, "[FILE ...]  print files"),
    ("cd", cd, "[DIR]  change the directory"),
    (
        "echo",
        echo,
        "[-n] [WORD ...]  print words; echo WORD >FILE changes a switch in /proc or /sys",
    ),
    ("env", env, "print the environment"),
    ("exec", exec, "PROGRAM [WORD ...]  become a program"),
    (
        "exit",
        exit,
        "[N]  leave the shell; the first shell's end switches the machine off",
    ),
    (
        "export",
        export,
        "NAME[=VALUE] ...  set variables for programs",
    ),
    ("false", |_, _| 1, "fail"),
    ("free", |_, _| look::free(), "memory in use"),
    ("help", help, "this list"),
    ("kill", kill, "[-SIGNAL] PID ...  send a signal"),
    (
        "ls",
        |_, args| look::ls(args),
        "[-a] [-l] [FILE ...]  list files",
    ),
    (
        "mkdir",
        |_, args| each(args, |p| fs::create_dir(p)),
        "DIR ...  make directories",
    ),
    ("mount", mount, "TYPE DIR  mount a file system"),
    ("mv", mv, "OLD NEW  rename a file"),
    ("ps", |_, _| look::ps(), "processes"),
    ("pwd", pwd, "print the directory"),
    (
        "rm",
        |_, args| each(args, |p| fs::remove_file(p)),
        "FILE ...  remove files",
    ),
    (
        "rmdir",
        |_, args| each(args, |p| fs::remove_dir(p)),
        "DIR ...  remove empty directories",
    ),
    ("set", set, "print all variables"),
    ("sleep", sleep, "SECONDS  wait"),
    ("true", |_, _| 0, "succeed"),
    ("unset", unset, "NAME ...  forget variables"),
    ("wait", wait, "[PID ...]  wait for background commands"),
];

/// The built-in of this name.
pub fn find(name: &str) -> Option<Builtin> {
    ALL.iter().find(|b| b.0 == name).map(|b| b.1)
}

/// Writes to standard output: 0, or 1 with the reason said.
pub fn print(text: &str) -> i32 {
    done("write", file::write_all(1, text.as_bytes()))
}

fn done(what: &str, result: Result<(), Errno>) -> i32 {
    match result {
        Ok(()) => 0,
        Err(e) => {
            complain(&format!("{what}: {e}"));
            1
        }
    }
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

fn cat(_: &mut Shell, args: &[String]) -> i32 {
    if args.is_empty() {
        return copy("standard input", 0);
    }
    let mut status = 0;
    for path in args {
        match file::open(path, libc::O_RDONLY | libc::O_CLOEXEC, 0) {
            Ok(fd) => {
                status |= copy(path, fd);
                let _ = file::close(fd);
            }
            Err(e) => status = done(path, Err(e)),
        }
    }
    status
}

fn copy(name: &str, fd: i32) -> i32 {
    let mut buf = vec![0u8; 16384];
    loop {
        match file::read(fd, &mut buf) {
            Ok(0) => return 0,
            Ok(n) => match file::write_all(1, &buf[..n]) {
                Ok(()) => {}
                Err(e) => return done("write", Err(e)),
            },
            // ^C.
            Err(Errno(libc::EINTR)) => return 130,
            Err(e) => return done(name, Err(e)),
        }
    }
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
    super::run::default_signals();
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
        Some(s) if pause((s * 1e9) as u64) => 0,
        Some(_) => 130,
        None => {
            complain("sleep: how many seconds?");
            2
        }
    }
}

fn wait(sh: &mut Shell, args: &[String]) -> i32 {
    let pids = match args.is_empty() {
        true => std::mem::take(&mut sh.jobs),
        false => args.iter().filter_map(|a| a.parse().ok()).collect(),
    };
    let mut status = 0;
    for pid in pids {
        sh.jobs.retain(|&j| j != pid);
        // An interrupted wait is given up: ^C must reach a shell that waits.
        status = match proc::wait(pid, 0) {
            Ok(Some((_, s))) => s.code(),
            Ok(None) => 0,
            Err(Errno(libc::EINTR)) => return 130,
            Err(_) => 127,
        };
    }
    status
}

fn kill(_: &mut Shell, args: &[String]) -> i32 {
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
        status |= match pid.parse() {
            Ok(n) => done(pid, proc::kill(n, sig)),
            Err(_) => done(pid, Err(Errno(libc::EINVAL))),
        };
    }
    status
}

fn mount(_: &mut Shell, args: &[String]) -> i32 {
    match args {
        [kind, dir] => done(dir, proc::mount(kind, dir, kind, 0)),
        _ => cat(&mut Shell::default(), &["/proc/mounts".into()]),
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
    for (name, _, what) in ALL {
        text += &format!("{:<8}{what}\n", name);
    }
    text += "time    PIPELINE  say how long it takes\n";
    text += "Signs: a|b  a;b  a&&b  a||b  a&  !a  <f >f >>f 2>f 2>&1  'q' \"q\" \\c  $NAME $? $$  * ?  #\n";
    text += "Programs are in /bin: memtour shows the memory manager at work, selftests tests it, cost measures.\n";
    print(&text)
}
