//! A column of the tables: the figures of one run.
use super::cells::Cells;

/// One run and its name.
pub struct Column {
    /// Its heading.
    pub label: String,
    /// Whether Linux ran.
    pub linux: bool,
    /// Its cells.
    pub cells: Cells,
}
