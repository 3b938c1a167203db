//! The program behind `run.sh`.
use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::dispatch(tools::args::parse()) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            eprintln!("{} {error:#}", tools::host::errors::name_of_errors());
            ExitCode::from(if error.is::<tools::host::errors::UsageError>() {
                2
            } else {
                1
            })
        }
    }
}
