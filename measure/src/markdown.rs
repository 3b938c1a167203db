//! Tables in Markdown.
use std::fmt::Display;

/// A row.
pub fn row(cells: impl IntoIterator<Item: Display>) -> String {
    let cells = cells.into_iter().map(|cell| format!(" {cell} |"));
    format!("|{}\n", cells.collect::<String>())
}

/// The heading, and the line below it.
pub fn heading(cells: impl IntoIterator<Item: Display>) -> String {
    let heading = row(cells);
    let columns = heading.matches('|').count() - 1;
    format!("{heading}|{}\n", "---|".repeat(columns))
}
