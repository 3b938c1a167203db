//! The program behind `run.sh`.
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = tools::args::parse();
    match tools::dispatch(cli) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            let name = console::style("run.sh:").red().bold().for_stderr();
            eprintln!("{name} {error:#}");
            ExitCode::from(if error.is::<tools::UsageError>() {
                2
            } else {
                1
            })
        }
    }
}
