//! The host: its packages and programs, what is printed on its terminal, and the files of the
//! repository.

pub mod arch;
pub mod backports;
pub mod browser;
pub mod compilers;
pub mod debian;
pub mod errors;
pub mod install;
pub mod managers;
pub mod meter;
pub mod outcome;
pub mod packages;
pub mod progress;
pub mod symbols;
pub mod system;
pub mod words;
pub mod workers;
pub mod workspace;
