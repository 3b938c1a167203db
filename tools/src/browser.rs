//! Pages in a real browser, where this computer has Chromium.
use crate::workspace::Temporary;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the browser's programs are called.
pub const NAMES: [&str; 4] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
];

/// Where it is.
pub fn find() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let mut all =
        std::env::split_paths(&folders).flat_map(|folder| NAMES.map(|name| folder.join(name)));
    all.find(|file| file.is_file())
}

/// What the browser prints, with these options, of a page.
pub fn open(browser: &Path, options: &[String], address: &str) -> Result<Vec<u8>> {
    let profile = Temporary::folder("browser")?;
    let output = Command::new(browser)
        .args([
            "--headless",
            "--disable-gpu",
            "--hide-scrollbars",
            "--no-first-run",
        ])
        // It shows nothing but our page, and containers have no sandbox.
        .arg("--no-sandbox")
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(options)
        .arg(address)
        .output()
        .with_context(|| format!("cannot start {}", browser.display()))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{errors}");
    Ok(output.stdout)
}

/// The option for a theme: the browser's numbers of `prefers-color-scheme`.
pub fn theme(dark: bool) -> String {
    format!(
        "--blink-settings=preferredColorScheme={}",
        if dark { 0 } else { 1 }
    )
}
