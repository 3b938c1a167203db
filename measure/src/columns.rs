//! Tables for a terminal.

/// The cells of a row, and what stands behind them.
pub type Row = (Vec<String>, String);

/// Columns as wide as their widest cell: the first flush left, the others flush right.
pub fn aligned(rows: &[Row]) -> String {
    let columns = rows.iter().map(|(cells, _)| cells.len()).max();
    let wide = |at: usize| {
        let cells = rows.iter().filter_map(|(cells, _)| cells.get(at));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns.unwrap_or(0)).map(wide).collect();
    let line = |(cells, end): &Row| {
        let cells = widths.iter().enumerate().map(|(at, width)| {
            let cell = cells.get(at).map_or("", String::as_str);
            match at {
                0 => format!("{cell:width$}"),
                _ => format!("  {cell:>width$}"),
            }
        });
        let line = cells.collect::<String>() + "  " + end;
        line.trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

/// What stands in a column for a figure that may not be there.
pub fn or_dash(figure: Option<impl ToString>) -> String {
    figure.map_or_else(|| "-".to_owned(), |figure| figure.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_they_must() {
        let row = |cells: &[&str], end: &str| {
            let cells = cells.iter().map(ToString::to_string);
            (cells.collect(), end.to_owned())
        };
        let rows = [
            row(&["op", "figure"], ""),
            row(&["munmap", "7"], "met"),
            row(&["fork"], ""),
        ];
        let text = "op      figure\nmunmap       7  met\nfork\n";
        assert_eq!(aligned(&rows), text);
    }
}
