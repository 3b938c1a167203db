//! Pieces of HTML.
use std::collections::BTreeSet;
use std::fmt::{Display, Write};

/// Text as HTML has it, also within quotes.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// A table of figures: the first cell of each row is its heading.
pub fn table(heads: impl IntoIterator<Item: Display>, rows: &[Vec<String>]) -> String {
    let mut text = String::from("<div class=\"wide\"><table>\n<thead><tr>");
    for head in heads {
        let head = escape(&head.to_string());
        let _ = write!(text, "<th scope=\"col\">{head}</th>");
    }
    text += "</tr></thead>\n<tbody>\n";
    for row in rows {
        text += "<tr>";
        for (at, cell) in row.iter().enumerate() {
            let _ = match at {
                0 => write!(text, "<th scope=\"row\">{}</th>", escape(cell)),
                _ => write!(text, "<td>{}</td>", escape(cell)),
            };
        }
        text += "</tr>\n";
    }
    text + "</tbody>\n</table></div>\n"
}

/// Something that is shown when it is asked for.
pub fn details(summary: &str, content: &str) -> String {
    format!(
        "<details><summary>{}</summary>\n{content}</details>\n",
        escape(summary)
    )
}

/// The numbers behind plots, as a table.
pub fn numbers(heads: impl IntoIterator<Item: Display>, rows: &[Vec<String>]) -> String {
    details("The numbers", &table(heads, rows))
}

/// The commands that print figures.
pub fn commands(lines: &[String]) -> String {
    let mut text = String::from("<pre class=\"command\">");
    for (at, line) in lines.iter().enumerate() {
        let end = if at + 1 < lines.len() { "\n" } else { "" };
        let _ = write!(text, "<code>{}</code>{end}", escape(line));
    }
    text + "</pre>\n"
}

/// What a section says that has no data.
pub fn missing(command: &str) -> String {
    format!(
        "<p class=\"missing\">Not measured. <code>{}</code> makes its data.</p>\n",
        escape(command)
    )
}

/// A panel: a picture below its name.
pub fn panel(name: &str, svg: &str) -> String {
    format!(
        "<figure class=\"panel\"><figcaption>{}</figcaption>\n{svg}</figure>\n",
        escape(name)
    )
}

/// Panels side by side, as many as fit.
pub fn panels(panels: &[String]) -> String {
    format!("<div class=\"panels\">\n{}</div>\n", panels.concat())
}

/// What marks mean: each a class of the style and its name.
pub fn legend(entries: &[(&str, &str)]) -> String {
    let mut text = String::from("<ul class=\"legend\">");
    for (class, name) in entries {
        let _ = write!(
            text,
            "<li><svg viewBox=\"0 0 28 12\" aria-hidden=\"true\" class=\"key\">{}</svg>{}</li>",
            mark(class),
            escape(name)
        );
    }
    text + "</ul>\n"
}

/// A sample of a class: a line with its marker, or an area.
fn mark(class: &str) -> String {
    let line = |style: &str| format!("<line class={style} x1=\"0\" y1=\"6\" x2=\"28\" y2=\"6\"/>");
    match class {
        "quire" => {
            line("\"s1\" stroke-width=\"2\"") + "<circle class=\"f1\" cx=\"14\" cy=\"6\" r=\"4\"/>"
        }
        "linux" => {
            let square = "<rect class=\"f2\" x=\"10\" y=\"2\" width=\"8\" height=\"8\"/>";
            line("\"s2\" stroke-width=\"2\"") + square
        }
        "floor" => line("\"s3\" stroke-width=\"2\" stroke-dasharray=\"5 3\""),
        area => format!("<rect class=\"{area}\" x=\"4\" y=\"0\" width=\"20\" height=\"12\"/>"),
    }
}

/// A figure with as many digits as are worth reading: three, or all before the point.
pub fn number(figure: f64) -> String {
    let digits = match figure.abs() {
        0.0 => 0,
        small if small < 0.0995 => 4,
        small if small < 0.995 => 3,
        small if small < 9.95 => 2,
        small if small < 99.5 => 1,
        _ => 0,
    };
    let text = format!("{figure:.digits$}");
    match text.split_once('.') {
        Some((whole, part)) => {
            let part = part.trim_end_matches('0');
            let point = if part.is_empty() { "" } else { "." };
            format!("{whole}{point}{part}")
        }
        None => grouped(&text),
    }
}

/// The same of a figure that may not be there.
pub fn number_or_dash(figure: Option<f64>) -> String {
    figure.map_or_else(|| "-".to_owned(), number)
}

/// Digits in groups of three.
pub fn grouped(digits: &str) -> String {
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", digits),
    };
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    format!("{sign}{text}")
}

/// Sizes or numbers of CPUs in order, each once, for rows and columns.
pub fn distinct(numbers: impl Iterator<Item = u64>) -> Vec<u64> {
    Vec::from_iter(BTreeSet::from_iter(numbers))
}

/// What there is, in its order, each once.
pub fn each_once<T: PartialEq>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut once = Vec::new();
    for one in all {
        if !once.contains(&one) {
            once.push(one);
        }
    }
    once
}

/// A size in kB as folios are called by it.
pub fn size(kb: u64) -> String {
    match kb {
        1024.. if kb.is_multiple_of(1024) => format!("{}M", kb / 1024),
        _ => format!("{kb}k"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        for (figure, shown) in [
            (0.0, "0"),
            (0.01234, "0.0123"),
            (0.5, "0.5"),
            (2.346, "2.35"),
            (38.0, "38"),
            (99.96, "100"),
            (1234.5, "1,234"),
            (12_345_678.0, "12,345,678"),
            (-1234.0, "-1,234"),
        ] {
            assert_eq!(number(figure), shown);
        }
        assert_eq!([4, 64, 2048].map(size), ["4k", "64k", "2M"]);
    }

    #[test]
    fn text_of_others_is_no_html() {
        let rows = [vec!["<b>".to_owned(), "a & \"b\"".to_owned()]];
        let text = table(["x"], &rows);
        assert!(text.contains("<th scope=\"row\">&lt;b&gt;</th><td>a &amp; &quot;b&quot;</td>"));
    }
}
