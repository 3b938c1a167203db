//! A text console on a screen of pixels: a grid of ASCII characters, the control sequences that
//! user programs use, and the pixels of the font. Pixels are only written, never read: a screen's
//! memory is slow to read.
#![no_std]

extern crate alloc;

mod grid;

use grid::{Cell, Grid};
use noto_sans_mono_bitmap::{FontWeight, RasterHeight, get_raster, get_raster_width};
use vte::{Params, Parser, Perform};

/// A screen of pixels.
pub trait Pixels {
    /// Pixels in a row, and rows.
    fn size(&self) -> (usize, usize);
    /// Sets the pixel in column `x` of row `y`, both from 0 and below [`size`](Self::size);
    /// `intensity` from 0, the background, to 255.
    fn put(&mut self, x: usize, y: usize, intensity: u8);
}

const HEIGHT: RasterHeight = RasterHeight::Size16;
const WIDTH: usize = get_raster_width(FontWeight::Regular, HEIGHT);

/// The console.
pub struct Console<P> {
    parser: Parser,
    text: Text<P>,
}

/// The receiver of the parser's actions.
struct Text<P> {
    grid: Grid,
    pixels: P,
}

impl<P: Pixels> Console<P> {
    /// An empty console on a screen whose pixels may have any value.
    pub fn new(mut pixels: P) -> Self {
        let (width, height) = pixels.size();
        for y in 0..height {
            for x in 0..width {
                pixels.put(x, y, 0);
            }
        }
        let grid = Grid::new(width / WIDTH, height / HEIGHT.val());
        Console {
            parser: Parser::new(),
            text: Text { grid, pixels },
        }
    }

    /// Columns and rows.
    pub fn size(&self) -> (usize, usize) {
        self.text.grid.size()
    }

    /// Shows `bytes`.
    pub fn write(&mut self, bytes: &[u8]) {
        self.parser.advance(&mut self.text, bytes);
        let Text { grid, pixels } = &mut self.text;
        grid.changes(&mut |column, row, cell| draw(pixels, column, row, cell));
    }
}

fn draw(pixels: &mut impl Pixels, column: usize, row: usize, cell: Cell) {
    let glyph = get_raster(char::from(cell.byte), FontWeight::Regular, HEIGHT);
    let Some(glyph) = glyph else { return };
    for (y, line) in glyph.rows().enumerate() {
        for (x, intensity) in line.iter().enumerate() {
            let intensity = if cell.inverse {
                255 - intensity
            } else {
                *intensity
            };
            pixels.put(column * WIDTH + x, row * HEIGHT.val() + y, intensity);
        }
    }
}

impl<P> Perform for Text<P> {
    fn print(&mut self, c: char) {
        let shown = if c.is_ascii_graphic() || c == ' ' {
            c as u8
        } else {
            b'?'
        };
        self.grid.put(shown);
    }

    fn execute(&mut self, byte: u8) {
        match byte {
            b'\n' => self.grid.line_feed(),
            b'\r' => self.grid.go(Some(0), None),
            b'\t' => self.grid.tab(),
            8 => self.grid.back(),
            _ => {}
        }
    }

    // ECMA-48: cursor up, down, right, left, to a place; erase in the display, in the line.
    fn csi_dispatch(&mut self, params: &Params, _: &[u8], _: bool, action: char) {
        let mut numbers = params
            .iter()
            .map(|p| usize::from(p.first().copied().unwrap_or(0)));
        let first = numbers.next().unwrap_or(0);
        let (column, row) = self.grid.cursor();
        let grid = &mut self.grid;
        match action {
            'A' => grid.go(None, Some(row.saturating_sub(first.max(1)))),
            'B' => grid.go(None, Some(row + first.max(1))),
            'C' => grid.go(Some(column + first.max(1)), None),
            'D' => grid.go(Some(column.saturating_sub(first.max(1))), None),
            'H' | 'f' => {
                let second = numbers.next().unwrap_or(0);
                grid.go(Some(second.max(1) - 1), Some(first.max(1) - 1));
            }
            'J' => grid.erase_display(first),
            'K' => grid.erase_line(first),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::String;
    use std::vec::Vec;

    /// A screen of 20 by 4 characters.
    struct Paper(Vec<u8>);
    const SIZE: (usize, usize) = (20 * WIDTH + 1, 4 * 16 + 5);

    impl Pixels for Paper {
        fn size(&self) -> (usize, usize) {
            SIZE
        }
        fn put(&mut self, x: usize, y: usize, intensity: u8) {
            assert!(x < SIZE.0 && y < SIZE.1);
            self.0[y * SIZE.0 + x] = intensity;
        }
    }

    fn console() -> Console<Paper> {
        Console::new(Paper(std::vec![7; SIZE.0 * SIZE.1]))
    }

    fn lines(console: &Console<Paper>) -> Vec<String> {
        let (columns, rows) = console.size();
        let line = |row| -> String {
            (0..columns)
                .map(|column| char::from(console.text.grid.at(column, row).byte))
                .collect()
        };
        (0..rows).map(|row| line(row).trim_end().into()).collect()
    }

    #[test]
    fn text_and_controls() {
        let mut console = console();
        assert_eq!(console.size(), (20, 4));
        console.write(b"one\r\ntwo\tx\r\n\x1b[31mre\x1b[0md\x08D\x00\xc3\xa4");
        assert_eq!(lines(&console), ["one", "two     x", "reD?", ""]);
        console.write(b"\x1b[1;2HNE\x1b[K\x1b[3;1H\x1b[2C!");
        assert_eq!(lines(&console), ["oNE", "two     x", "re!?", ""]);
        console.write(b"\x1b[2J\x1b[H.");
        assert_eq!(lines(&console), [".", "", "", ""]);
    }

    #[test]
    fn long_lines_wrap_and_the_screen_scrolls() {
        let mut console = console();
        console.write(b"0123456789012345678901");
        assert_eq!(lines(&console)[..2], ["01234567890123456789", "01"]);
        console.write(b"\r\na\r\nb\r\nc\r\nd");
        let shown = lines(&console);
        assert!(
            shown.contains(&"d".into()) && !shown[0].starts_with('0'),
            "{shown:?}"
        );
    }

    #[test]
    fn every_pixel_is_what_the_grid_says() {
        let mut console = console();
        for n in 0..30u8 {
            console.write(&[b'a' + n % 26, b'\n', b'A', b'\r', 27, b'[', b'K']);
        }
        let mut again = Paper(std::vec![0; SIZE.0 * SIZE.1]);
        let (columns, rows) = console.size();
        for (column, row) in (0..rows).flat_map(|row| (0..columns).map(move |column| (column, row)))
        {
            draw(&mut again, column, row, console.text.grid.at(column, row));
        }
        assert!(again.0 == console.text.pixels.0);
    }
}
