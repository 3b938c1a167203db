//! The shell: [`lex`] makes tokens, [`parse`] commands, [`expand`] words into arguments, [`run`]
//! runs them; [`builtins`] are the commands that need no program.
//!
//! It is a small part of the POSIX shell: pipelines, `;` `&&` `||` `&` `!`, redirections, quotes,
//! `$NAME` and `*` `?` patterns. There is no `if` and no `for`: for these, boot with busybox.

pub mod builtins;
mod complete;
pub mod control;
pub mod edit;
pub mod expand;
mod input;
pub mod job;
mod jobs;
pub mod lex;
pub mod look;
pub mod parse;
mod redirect;
pub mod run;
mod show;
mod text;
