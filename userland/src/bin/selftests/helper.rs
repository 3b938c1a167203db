//! What the tests of exec run: this program under other names, by `--as`.
use userland::sys::{file, segments, sig};

/// Acts as `words[0]` says; the exit status.
pub fn run(words: Vec<String>) -> i32 {
    let Some((role, rest)) = words.split_first() else {
        return 100;
    };
    match role.as_str() {
        "args" => args(rest),
        "env" => {
            std::env::vars().for_each(|(k, v)| println!("{k}={v}"));
            0
        }
        "auxv" => auxv(),
        "fds" => {
            for fd in rest.iter().filter_map(|n| n.parse().ok()) {
                match file::fcntl(fd, libc::F_GETFD, 0) {
                    Ok(_) => println!("open"),
                    Err(e) => println!("{e:?}"),
                }
            }
            0
        }
        "signals" => {
            println!(
                "USR1 default {}",
                sig::is_default(libc::SIGUSR1).unwrap_or(false)
            );
            println!(
                "USR2 default {}",
                sig::is_default(libc::SIGUSR2).unwrap_or(false)
            );
            println!("HUP blocked {}", sig::blocked(libc::SIGHUP));
            0
        }
        // Runs until its input ends.
        "reader" => {
            while file::read(0, &mut [0; 64]).is_ok_and(|n| n > 0) {}
            8
        }
        "selectors" => {
            println!("{:?}", segments::selectors());
            0
        }
        "thp_disable" => crate::thp_disable::disabled(),
        "thp_orders" => crate::thp_orders::has(rest.first()),
        "pkeys" => crate::pkeys::begin(),
        "exit" => rest.first().and_then(|n| n.parse().ok()).unwrap_or(101),
        // As a script's interpreter the role is the script's path.
        path => {
            println!("script {path}");
            args(rest)
        }
    }
}

fn args(words: &[String]) -> i32 {
    words.iter().for_each(|w| println!("[{w}]"));
    3
}

fn auxv() -> i32 {
    (3..=33).for_each(|key| println!("{key} {}", userland::sys::aux(key)));
    0
}
