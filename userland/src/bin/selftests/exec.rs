//! execve: what a program gets, scripts, and files that are no programs.
use std::os::unix::fs::PermissionsExt;
use userland::harness::{Outcome, Stop, in_child, skip};
use userland::sys::proc::{self, Status};
use userland::sys::segments::{self, Selectors, USER_DATA, USER_DATA_0};
use userland::sys::{Errno, file, sig};
use userland::{check, check_eq, check_err};

userland::tests![
    exec_passes_arguments,
    exec_passes_environment,
    exec_auxiliary_vector,
    exec_usual_programs,
    exec_script,
    exec_script_errors,
    exec_refuses_what_is_no_program,
    exec_refuses_broken_elf,
    exec_refuses_too_long_arguments,
    exec_closes_marked_descriptors,
    exec_keeps_and_resets_signals,
    exec_resets_segments,
    exec_ends_threads,
    exec_file_is_busy,
];

/// What every system has in /bin.
fn exec_usual_programs() -> Outcome {
    std::fs::write("f", "one\ntwo\nthree\n")?;
    for (words, wanted) in [
        (&["/bin/cat", "f"][..], "one\ntwo\nthree\n"),
        (&["/bin/echo", "a", "b"], "a b\n"),
        (&["/bin/grep", "-c", "t", "f"], "2\n"),
        (&["/bin/grep", "-o", "t[a-z]", "f"], "tw\nth\n"),
        (&["/bin/ls"], "f\n"),
        (
            &[
                "/bin/sh",
                "-c",
                "/bin/true && /bin/false || /bin/pwd >/dev/null && /bin/cat f | /bin/grep w",
            ],
            "two\n",
        ),
    ] {
        let (status, text) = output(words[0], words, &["PATH=/bin:/usr/bin"])?;
        check_eq!(
            (words, status, text.as_str()),
            (words, Status::Exited(0), wanted)
        );
    }
    check_eq!(output("/bin/false", &["false"], &[])?.0, Status::Exited(1));
    Ok(())
}

fn me() -> String {
    std::env::current_exe()
        .map(|p| p.to_string_lossy().into_owned())
        .unwrap_or_default()
}

fn strings(list: &[&str]) -> Vec<String> {
    list.iter().map(|s| s.to_string()).collect()
}

/// Runs `path` with its output in a pipe: how it ended and what it wrote. Status 120 and the error
/// when exec failed.
fn output(path: &str, args: &[&str], env: &[&str]) -> Result<(Status, String), Stop> {
    let (hear, tell) = file::pipe(0)?;
    let pid = match proc::fork()? {
        proc::Fork::Child => {
            let _ = (file::dup2(tell, 1), file::close(tell), file::close(hear));
            let e = proc::exec(path, &strings(args), &strings(env));
            let _ = file::write_all(1, format!("{e:?}").as_bytes());
            proc::exit_now(120)
        }
        proc::Fork::Parent(pid) => pid,
    };
    file::close(tell)?;
    let (mut text, mut buf) = (Vec::new(), [0u8; 4096]);
    loop {
        match file::read(hear, &mut buf)? {
            0 => break,
            n => text.extend_from_slice(&buf[..n]),
        }
    }
    file::close(hear)?;
    Ok((
        proc::wait_for(pid)?,
        String::from_utf8_lossy(&text).into_owned(),
    ))
}

/// What exec says to a file of these bytes.
pub fn refusal(name: &str, bytes: &[u8]) -> Result<String, Stop> {
    std::fs::write(name, bytes)?;
    std::fs::set_permissions(name, std::fs::Permissions::from_mode(0o755))?;
    let path = format!("./{name}");
    let (status, text) = output(&path, &[&path], &[])?;
    Ok(if status == Status::Exited(120) {
        text
    } else {
        format!("{status:?} {text}")
    })
}

fn exec_passes_arguments() -> Outcome {
    let (status, text) = output(&me(), &["other name", "--as", "args", "a", "", "b c"], &[])?;
    check_eq!(text, "[a]\n[]\n[b c]\n");
    check_eq!(status, Status::Exited(3));
    let long = "x".repeat(100_000);
    let (_, text) = output(&me(), &["x", "--as", "args", &long], &[])?;
    check_eq!(text.len(), long.len() + 3);
    Ok(())
}

fn exec_passes_environment() -> Outcome {
    let (_, text) = output(&me(), &["x", "--as", "env"], &["A=1", "B=two words"])?;
    check_eq!(text, "A=1\nB=two words\n");
    Ok(())
}

fn exec_auxiliary_vector() -> Outcome {
    let (_, text) = output(&me(), &["x", "--as", "auxv"], &[])?;
    let value = |key: u64| {
        let line = text
            .lines()
            .find_map(|l| l.strip_prefix(&format!("{key} ")).map(str::to_string));
        line.and_then(|v| v.parse::<u64>().ok())
    };
    // AT_PAGESZ, AT_PHENT, AT_CLKTCK, AT_SECURE.
    check_eq!(
        [6, 4, 17, 23].map(value),
        [Some(4096), Some(56), Some(100), Some(0)]
    );
    // AT_PHDR, AT_PHNUM, AT_ENTRY, AT_RANDOM, AT_EXECFN are addresses or counts.
    for key in [3, 5, 9, 25, 31] {
        check!(
            value(key).is_some_and(|v| v != 0),
            "no entry {key} in\n{text}"
        );
    }
    Ok(())
}

fn script(name: &str, text: &str) -> Result<(), Stop> {
    std::fs::write(name, text)?;
    Ok(std::fs::set_permissions(
        name,
        std::fs::Permissions::from_mode(0o755),
    )?)
}

fn exec_script() -> Outcome {
    script("s", &format!("#!{} --as\nnever read\n", me()))?;
    // The interpreter gets its one word, the script's path and the arguments; `--as` names the
    // path's last part.
    let (status, text) = output("./s", &["ignored", "one", "two"], &[])?;
    check_eq!(text, "script ./s\n[one]\n[two]\n");
    check_eq!(status, Status::Exited(3));
    // A script whose interpreter is a script.
    script(
        "t",
        &format!("#!{}/s\n", std::env::current_dir()?.display()),
    )?;
    let (status, text) = output("./t", &["t"], &[])?;
    check_eq!(status, Status::Exited(3));
    check!(text.ends_with("/s\n[./t]\n"), "{text}");
    Ok(())
}

fn exec_script_errors() -> Outcome {
    check_eq!(refusal("a", b"#!/nowhere/at/all\n")?, "ENOENT");
    check_eq!(refusal("b", b"#!\n")?, "ENOEXEC");
    check_eq!(refusal("c", b"#!.\n")?, "EACCES");
    // Its own interpreter.
    let own = format!("#!{}/d\n", std::env::current_dir()?.display());
    check_eq!(refusal("d", own.as_bytes())?, "ELOOP");
    Ok(())
}

fn exec_refuses_what_is_no_program() -> Outcome {
    check_eq!(
        proc::exec("/nowhere", &strings(&["x"]), &[]),
        Errno(libc::ENOENT)
    );
    check_eq!(
        proc::exec("/dev/null/x", &strings(&["x"]), &[]),
        Errno(libc::ENOTDIR)
    );
    check_eq!(proc::exec("/", &strings(&["x"]), &[]), Errno(libc::EACCES));
    std::fs::write("plain", "no rights")?;
    check_eq!(
        proc::exec("./plain", &strings(&["x"]), &[]),
        Errno(libc::EACCES)
    );
    std::os::unix::fs::symlink("loop", "loop")?;
    check_eq!(
        proc::exec("./loop", &strings(&["x"]), &[]),
        Errno(libc::ELOOP)
    );
    check_eq!(refusal("text", b"just text\n")?, "ENOEXEC");
    check_eq!(refusal("empty", b"")?, "ENOEXEC");
    Ok(())
}

fn exec_refuses_broken_elf() -> Outcome {
    let good = std::fs::read(me())?;
    check_eq!(refusal("short", &good[..40])?, "ENOEXEC");
    let mut other = good[..4096].to_vec();
    // e_machine: neither of ours.
    other[18] = 0x08;
    other[19] = 0;
    check_eq!(refusal("machine", &other)?, "ENOEXEC");
    let mut kind = good[..4096].to_vec();
    kind[16] = 4;
    check_eq!(refusal("core", &kind)?, "ENOEXEC");
    let mut headers = good[..4096].to_vec();
    // e_phoff far behind the end.
    headers[32..40].copy_from_slice(&(1u64 << 40).to_le_bytes());
    let said = refusal("headers", &headers)?;
    check!(
        ["ENOEXEC", "EINVAL", "EIO"].contains(&said.as_str()),
        "{said}"
    );
    // Segments that the file does not hold: refused, or the program dies; never more than that.
    let said = refusal("cut", &good[..8192])?;
    check!(
        said.starts_with('E') && !said.starts_with("Exited") || said.starts_with("Killed"),
        "{said}"
    );
    Ok(())
}

fn exec_refuses_too_long_arguments() -> Outcome {
    let long = "x".repeat(200 * 1024);
    check_eq!(proc::exec(&me(), &[me(), long], &[]), Errno(libc::E2BIG));
    // Many: more than the stack's share.
    let many = vec!["y".repeat(100 * 1024); 100];
    check_eq!(proc::exec(&me(), &many, &[]), Errno(libc::E2BIG));
    Ok(())
}

fn exec_closes_marked_descriptors() -> Outcome {
    let keep = file::open("/dev/null", libc::O_RDONLY, 0)?;
    let marked = file::open("/dev/null", libc::O_RDONLY | libc::O_CLOEXEC, 0)?;
    let later = file::open("/dev/null", libc::O_RDONLY, 0)?;
    file::fcntl(later, libc::F_SETFD, libc::FD_CLOEXEC as i64)?;
    let list = [keep, marked, later].map(|n| n.to_string());
    let (_, text) = output(
        &me(),
        &["x", "--as", "fds", &list[0], &list[1], &list[2]],
        &[],
    )?;
    check_eq!(text, "open\nEBADF\nEBADF\n");
    Ok(())
}

fn exec_keeps_and_resets_signals() -> Outcome {
    sig::count(libc::SIGUSR1, 0, &[])?;
    sig::ignore(libc::SIGUSR2)?;
    sig::mask(libc::SIG_BLOCK, &[libc::SIGHUP])?;
    let (_, text) = output(&me(), &["x", "--as", "signals"], &[])?;
    // A handler is gone with the program that had it; ignoring and the mask stay.
    check_eq!(
        text,
        "USR1 default true\nUSR2 default false\nHUP blocked true\n"
    );
    Ok(())
}

fn exec_ends_threads() -> Outcome {
    let status = in_child(|| {
        let (hear, _tell) = file::pipe(0)?;
        for _ in 0..3 {
            std::thread::spawn(move || file::read(hear, &mut [0]));
        }
        let e = proc::exec(&me(), &strings(&["x", "--as", "exit", "6"]), &[]);
        Err(Stop::Fail(format!("exec: {e:?}")))
    })?;
    check_eq!(status, Status::Exited(6));
    check_err!(proc::wait(-1, libc::WNOHANG), ECHILD);
    Ok(())
}

fn exec_file_is_busy() -> Outcome {
    std::fs::copy(me(), "program")?;
    let (hear, tell) = file::pipe(libc::O_CLOEXEC)?;
    let pid = match proc::fork()? {
        proc::Fork::Child => {
            let _ = file::dup2(hear, 0);
            proc::exec("./program", &strings(&["program", "--as", "reader"]), &[]);
            proc::exit_now(120)
        }
        proc::Fork::Parent(pid) => pid,
    };
    // It says that it runs by its name.
    let mut name = String::new();
    while name != "program" {
        name = std::fs::read_to_string(format!("/proc/{pid}/comm"))?
            .trim()
            .to_string();
    }
    check_err!(file::open("./program", libc::O_WRONLY, 0), ETXTBSY);
    check_err!(
        file::open("./program", libc::O_RDWR | libc::O_TRUNC, 0),
        ETXTBSY
    );
    let path = c"program".as_ptr() as usize;
    check_err!(
        userland::sys::call(libc::SYS_truncate, [path, 0, 0, 0, 0, 0]),
        ETXTBSY
    );
    file::close(tell)?;
    // It has ended, though it is not reaped yet.
    let options = libc::WEXITED | libc::WNOWAIT;
    check_eq!(proc::waitid(libc::P_PID, pid as u32, options)?.pid, pid);
    file::close(file::open("./program", libc::O_WRONLY | libc::O_TRUNC, 0)?)?;
    check_eq!(proc::wait_for(pid)?, Status::Exited(8));
    Ok(())
}

fn exec_resets_segments() -> Outcome {
    if segments::selectors().is_none() {
        return skip("no segment registers on this machine");
    }
    segments::load(Selectors {
        ds: USER_DATA,
        es: USER_DATA_0,
        gs: USER_DATA,
    });
    let nothing = Selectors {
        ds: 0,
        es: 0,
        gs: 0,
    };
    let (status, text) = output(&me(), &["selftests", "--as", "selectors"], &[])?;
    check_eq!(status, Status::Exited(0));
    check_eq!(text.trim_end(), format!("{:?}", Some(nothing)));
    Ok(())
}
