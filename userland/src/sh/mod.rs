//! The shell: [`lex`] makes tokens, [`parse`] commands, [`expand`] words into arguments, [`run`]
//! runs them; [`builtins`] are the commands that need no program.
//!
//! It is a small part of the POSIX shell: pipelines, `;` `&&` `||` `&` `!`, redirections, quotes,
//! `$NAME` and `*` `?` patterns. There is no `if` and no `for`: for these, boot with busybox.

pub mod builtins;
mod complete;
mod control;
pub mod edit;
pub mod exec;
pub mod expand;
mod input;
pub mod job;
mod jobs;
pub mod lex;
pub mod look;
pub mod output;
pub mod parse;
mod redirect;
pub mod run;
pub mod shell;
mod show;
mod text;
