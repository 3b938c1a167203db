//! `orders SIZES [PROGRAM [ARGUMENT ...]]`: runs a program that may have large folios of these
//! sizes only, of those that are enabled: `16kB-64kB,2048kB`, `all` or `none`. Without a program it
//! sets them for the process that started it: the shell.
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Command, exit};
use userland::sys::{Errno, proc};

/// Sets the orders of a process (`self` or its number).
fn set(process: &str, sizes: &str) {
    if let Err(error) = fs::write(format!("/proc/{process}/thp_orders"), sizes) {
        eprintln!("orders: {sizes}: {}", Errno::from(error));
        exit(1);
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some((sizes, words)) = words.split_first() else {
        eprintln!(
            "usage: orders SIZES [PROGRAM [ARGUMENT ...]]\nSIZES: all, none, or like 16kB-64kB,2048kB"
        );
        exit(2);
    };
    match words.split_first() {
        None => set(&proc::getppid().to_string(), sizes),
        Some((program, arguments)) => {
            set("self", sizes);
            let error = Command::new(program).args(arguments).exec();
            eprintln!("orders: {program}: {}", Errno::from(error));
            exit(127);
        }
    }
}
