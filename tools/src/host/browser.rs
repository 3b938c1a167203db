//! Pages in a real browser, where this computer has Chromium.
use crate::host::workspace::Temporary;
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

/// For tests, which do nothing where there is none.
pub mod of_tests {
    use super::*;

    /// Where it is; says it where it is not.
    pub fn find() -> Option<PathBuf> {
        let found = super::find();
        if found.is_none() {
            eprintln!("not tried: no {} in PATH", NAMES.join(", "));
        }
        found
    }

    /// What the browser prints, with these options, of this page.
    pub fn open(browser: &Path, options: &[String], page: &str) -> Vec<u8> {
        let file = Temporary::file("html", page.as_bytes()).unwrap();
        let address = format!("file://{}", file.path().display());
        super::open(browser, options, &address).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of each text of a picture: its characters, and where it begins and ends, in pixels.
    fn texts(browser: &Path, svg: &str, dark: bool) -> Vec<(String, f64, f64)> {
        const LOOK: &str = "<script>\
            document.body.dataset.seen = [...document.querySelectorAll('text')].map(one => {\
                const box = one.getBoundingClientRect();\
                return [one.textContent, box.left, box.right].join('\\t');\
            }).join('\\n');\
            </script>";
        let page =
            format!("<!DOCTYPE html><html><body style=\"margin:0\">{svg}{LOOK}</body></html>");
        let options = [
            "--dump-dom".to_owned(),
            theme(dark),
            "--window-size=1400,1000".to_owned(),
        ];
        let text = String::from_utf8(of_tests::open(browser, &options, &page)).unwrap();
        let (_, seen) = text.split_once("data-seen=\"").expect("the script ran");
        let seen = seen.split('"').next().unwrap();
        let lines = seen.lines().map(|line| {
            let fields: Vec<&str> = line.split('\t').collect();
            let number = |at: usize| fields[at].parse().unwrap();
            (fields[0].to_owned(), number(1), number(2))
        });
        lines.collect()
    }

    #[test]
    fn the_screen_of_the_readme_has_columns() {
        let Some(browser) = of_tests::find() else {
            return;
        };
        let svg = include_str!("../../../docs/terminal.svg");
        let lines = texts(&browser, svg, false);
        let of = |(text, left, right): &(String, f64, f64)| (right - left) / text.len() as f64;
        let column = of(&lines[0]);
        assert!(lines.len() > 30 && column > 5.0, "{lines:?}");
        // What is escaped has more characters than columns.
        for line in lines.iter().filter(|line| !line.0.contains('&')) {
            // A browser may leave blanks at an end out.
            let full = line.0.trim().len() == line.0.len() || line.0.starts_with(' ');
            assert!(!full || (of(line) - column).abs() < 0.05, "{line:?}");
        }
    }

    #[test]
    fn the_picture_of_a_shared_table_says_that_both_share_it() {
        let Some(browser) = of_tests::find() else {
            return;
        };
        let svg = include_str!("../../../docs/book/shared.svg");
        for dark in [false, true] {
            let lines = texts(&browser, svg, dark);
            let said: Vec<_> = lines
                .iter()
                .filter(|line| line.0.ends_with("which 2 processes share"))
                .collect();
            assert_eq!(said.len(), 2, "{lines:?}");
            // The two columns, side by side.
            assert!(said[0].2 <= said[1].1, "{said:?}");
            assert!(lines.iter().all(|line| line.2 <= 1400.0), "{lines:?}");
        }
    }
}
