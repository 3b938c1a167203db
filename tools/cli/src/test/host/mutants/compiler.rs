//! Whether breaks compile, and which of them does not.
use super::super::cargo;
use super::tree::Tree;
use anyhow::{Result, ensure};
use serde_json::Value;
use std::collections::BTreeSet;
use tools::host::arch::Arch;
use tools::host::progress;

/// An error of the compiler.
pub struct Error {
    /// Its words.
    pub text: String,
    /// File and last line.
    places: Vec<(String, usize)>,
}

impl Error {
    fn read(message: &Value) -> Option<Error> {
        let message = &message["message"];
        if message["level"] != "error" {
            return None;
        }
        let mut places = Vec::new();
        for span in message["spans"].as_array()? {
            let mut span = span;
            while !span.is_null() {
                let line = span["line_end"].as_u64()? as usize;
                places.push((span["file_name"].as_str()?.to_owned(), line));
                span = &span["expansion"]["span"];
            }
        }
        let text = message["rendered"].as_str()?.to_owned();
        Some(Error { text, places })
    }

    /// The break that is last before it.
    pub fn number(&self, tree: &Tree) -> Result<Option<usize>> {
        for (file, line) in &self.places {
            let Ok(text) = std::fs::read_to_string(tree.root().join(file)) else {
                continue;
            };
            let lines: Vec<&str> = text.lines().take(*line).collect();
            if let Some((_, rest)) = lines.join("\n").rsplit_once("crate::drawn::on(") {
                let digits = rest.split(')').next().unwrap_or_default();
                return Ok(digits.parse().ok());
            }
        }
        Ok(None)
    }
}

/// What the compiler says of some packages of the copy.
pub fn errors(tree: &Tree, packages: &BTreeSet<&str>) -> Result<Vec<Error>> {
    let mut errors = Vec::new();
    let host = packages.iter().filter(|package| **package != "kernel");
    let host: Vec<String> = host.map(|package| format!("--package={package}")).collect();
    let mut check = |arguments: &[String]| -> Result<()> {
        let mut command = cargo(&["check", "--message-format=json"]);
        command.args(arguments).current_dir(tree.root());
        command.env("CARGO_TARGET_DIR", Tree::target());
        let output = progress::during("checking breaks", || command.output())?;
        let before = errors.len();
        let lines = output.stdout.split(|byte| *byte == b'\n');
        let messages = lines.filter_map(|line| serde_json::from_slice(line).ok());
        errors.extend(messages.filter_map(|message: Value| Error::read(&message)));
        let words = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success() || errors.len() > before,
            "cargo check: {words}"
        );
        Ok(())
    };
    if !host.is_empty() {
        check(&host)?;
    }
    if packages.contains("kernel") {
        let target = Arch::X86_64.kernel_target();
        let arguments = ["--package=kernel".to_owned(), format!("--target={target}")];
        check(&arguments)?;
    }
    Ok(errors)
}
