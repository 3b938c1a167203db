//! The characters of a screen, its cursor, and the cells that must be redrawn.

use alloc::{vec, vec::Vec};

/// Screens larger than this (1920 by 1080 pixels) are used in part: the kernel has little memory
/// when it makes one.
const COLUMNS: usize = 240;
const ROWS: usize = 68;

/// A cell of the screen.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    /// ASCII.
    pub byte: u8,
    /// The cursor's position.
    pub inverse: bool,
}

const BLANK: u8 = b' ';

/// The characters, and those that are drawn.
pub struct Grid {
    columns: usize,
    rows: usize,
    /// Row by row.
    wanted: Vec<u8>,
    drawn: Vec<u8>,
    /// Column and row; the column may be one past the last, until another character comes.
    cursor: (usize, usize),
    drawn_cursor: Option<(usize, usize)>,
    /// Rows that may have to be drawn.
    dirty: Vec<bool>,
}

impl Grid {
    /// A blank grid, already drawn.
    pub fn new(columns: usize, rows: usize) -> Self {
        let (columns, rows) = (columns.clamp(1, COLUMNS), rows.clamp(1, ROWS));
        let blank = vec![BLANK; columns * rows];
        Grid {
            columns,
            rows,
            drawn: blank.clone(),
            wanted: blank,
            cursor: (0, 0),
            drawn_cursor: None,
            dirty: vec![false; rows],
        }
    }

    /// Columns and rows.
    pub fn size(&self) -> (usize, usize) {
        (self.columns, self.rows)
    }

    /// Column and row of the next character.
    pub fn cursor(&self) -> (usize, usize) {
        self.cursor
    }

    /// The character of a cell.
    #[cfg(test)]
    pub fn at(&self, column: usize, row: usize) -> Cell {
        Cell {
            byte: self.wanted[row * self.columns + column],
            inverse: self.shown_cursor() == (column, row),
        }
    }

    fn shown_cursor(&self) -> (usize, usize) {
        (self.cursor.0.min(self.columns - 1), self.cursor.1)
    }

    /// Moves the cursor, within the screen.
    pub fn go(&mut self, column: Option<usize>, row: Option<usize>) {
        self.cursor.0 = column.unwrap_or(self.cursor.0).min(self.columns - 1);
        self.cursor.1 = row.unwrap_or(self.cursor.1).min(self.rows - 1);
    }

    /// Writes a character at the cursor.
    pub fn put(&mut self, byte: u8) {
        if self.cursor.0 == self.columns {
            self.cursor.0 = 0;
            self.line_feed();
        }
        let (column, row) = self.cursor;
        self.wanted[row * self.columns + column] = byte;
        self.dirty[row] = true;
        self.cursor.0 += 1;
    }

    /// Moves one row down; at the last one the screen scrolls by a quarter, because scrolling
    /// redraws most of it.
    pub fn line_feed(&mut self) {
        if self.cursor.1 + 1 < self.rows {
            self.cursor.1 += 1;
            return;
        }
        let by = (self.rows / 4).max(1);
        self.wanted.copy_within(by * self.columns.., 0);
        self.wanted[(self.rows - by) * self.columns..].fill(BLANK);
        self.dirty.fill(true);
        self.cursor.1 = self.rows - by;
    }

    /// Moves one column to the left.
    pub fn back(&mut self) {
        self.go(Some(self.cursor.0.saturating_sub(1)), None);
    }

    /// Moves to the next column that is a multiple of 8.
    pub fn tab(&mut self) {
        self.go(Some((self.cursor.0 / 8 + 1) * 8), None);
    }

    /// ECMA-48's ED: 0 from the cursor on, 1 up to it, 2 all.
    pub fn erase_display(&mut self, what: usize) {
        let row = self.cursor.1;
        self.erase_line(what);
        let rows = match what {
            0 => row + 1..self.rows,
            1 => 0..row,
            _ => 0..self.rows,
        };
        self.wanted[rows.start.min(self.rows) * self.columns..rows.end * self.columns].fill(BLANK);
        self.dirty.fill(true);
    }

    /// ECMA-48's EL: 0 from the cursor on, 1 up to it, 2 all.
    pub fn erase_line(&mut self, what: usize) {
        let (column, row) = self.shown_cursor();
        let columns = match what {
            0 => column..self.columns,
            1 => 0..column + 1,
            _ => 0..self.columns,
        };
        let start = row * self.columns;
        self.wanted[start + columns.start..start + columns.end].fill(BLANK);
        self.dirty[row] = true;
    }

    /// Calls `draw` (column, row, character) for every cell that differs from what was drawn.
    pub fn changes(&mut self, draw: &mut dyn FnMut(usize, usize, Cell)) {
        let now = self.shown_cursor();
        let moved = self.drawn_cursor.filter(|old| *old != now);
        for row in 0..self.rows {
            if !core::mem::take(&mut self.dirty[row]) {
                continue;
            }
            for column in 0..self.columns {
                let byte = self.wanted[row * self.columns + column];
                let place = (column, row);
                if self.drawn[row * self.columns + column] != byte
                    && place != now
                    && Some(place) != moved
                {
                    draw(
                        column,
                        row,
                        Cell {
                            byte,
                            inverse: false,
                        },
                    );
                }
                self.drawn[row * self.columns + column] = byte;
            }
        }
        for (place, inverse) in [(moved, false), (Some(now), true)] {
            if let Some((column, row)) = place {
                let byte = self.wanted[row * self.columns + column];
                draw(column, row, Cell { byte, inverse });
            }
        }
        self.drawn_cursor = Some(now);
    }
}
