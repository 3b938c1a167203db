//! A small shell: `sh`, `sh -c 'COMMANDS' [WORD ...]`, `sh FILE [WORD ...]`. Started by another
//! name, as by the link `/bin/cat`, it is that command.
use userland::sh::builtins;
use userland::sh::output::complain;
use userland::sh::shell::Shell;
use userland::sys::sig;

fn main() {
    let mut args: Vec<String> = std::env::args().collect();
    if let Some(command) = args.first().and_then(|path| builtins::of_link(path)) {
        let words = args.split_off(1);
        // A reader that leaves ends it quietly, as any program; std has set the signal aside.
        let _ = sig::default(libc::SIGPIPE);
        std::process::exit((command.run)(&mut Shell::new(args), &words));
    }
    if args.get(1).is_some_and(|a| a == "-c") {
        let Some(text) = args.get(2).cloned() else {
            complain("-c needs a command");
            std::process::exit(2);
        };
        args.drain(1..3);
        std::process::exit(Shell::new(args).run_text(&text));
    }
    if args.len() > 1 {
        args.remove(0);
        match std::fs::read_to_string(&args[0]) {
            Ok(text) => std::process::exit(Shell::new(args).run_text(&text)),
            Err(e) => {
                complain(&format!("{}: {}", args[0], userland::sys::Errno::from(e)));
                std::process::exit(127);
            }
        }
    }
    std::process::exit(Shell::new(args).run_input());
}
