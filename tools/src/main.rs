//! The program behind `run.sh`.
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = tools::args::parse();
    match tools::dispatch(cli) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            eprintln!("{} {error:#}", tools::name_of_errors());
            ExitCode::from(if error.is::<tools::UsageError>() {
                2
            } else {
                1
            })
        }
    }
}
