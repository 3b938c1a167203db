//! A column of a table: what one run measured.
use super::cells::Cells;

/// One run.
#[derive(Default)]
pub struct Column {
    /// Its heading.
    pub label: String,
    /// Its cells.
    pub cells: Cells,
    /// The tables that programs beside the bench printed.
    pub tables: Vec<String>,
}

impl Column {
    /// A run of which nothing is known yet.
    pub fn of(label: &str) -> Column {
        Column {
            label: label.to_owned(),
            ..Column::default()
        }
    }
}
