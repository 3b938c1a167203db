//! The page in a real browser, where this computer has Chromium: light, dark, as wide as a phone,
//! and on paper.
use super::html;
use super::page::{page, tests::sample};
use std::fs;
use std::path::Path;
use tools::host::browser::of_tests::{find, open};
use tools::host::browser::theme;
use tools::host::workspace::Temporary;

/// What a reader sees.
#[derive(Debug)]
struct Seen {
    paper: String,
    /// Columns that the page needs.
    width: u32,
    /// The height of the smallest text in a plot, in pixels.
    text: f64,
    /// Pictures that have no size.
    empty: u32,
}

/// Looks at the page in a frame of this width: the browser's windows cannot be as narrow as phones.
fn look(browser: &Path, page: &str, width: u32, dark: bool) -> Seen {
    const LOOK: &str = "<script>\
        const all = [...document.querySelectorAll('main figure svg')].map(one => one.getBoundingClientRect());\
        const text = [...document.querySelectorAll('main figure svg text')].filter(one => one.textContent.trim());\
        const least = Math.min(...text.map(one => one.getBoundingClientRect().height));\
        parent.document.body.dataset.seen = [getComputedStyle(document.body).backgroundColor,\
            document.documentElement.scrollWidth, least,\
            all.filter(one => one.width < 200 || one.height < 5).length].join(';');\
        </script></body>";
    let page = page.replace("</body>", LOOK);
    let outer = format!(
        "<!DOCTYPE html><html><body><iframe width=\"{width}\" height=\"900\" style=\"border:0\" srcdoc=\"{}\"></iframe></body></html>",
        html::escape(&page)
    );
    let options = [
        "--dump-dom".to_owned(),
        theme(dark),
        "--window-size=1400,1000".to_owned(),
    ];
    let text = String::from_utf8(open(browser, &options, &outer)).unwrap();
    let seen = text.split_once("data-seen=\"").expect("the script ran").1;
    let fields: Vec<&str> = seen.split('"').next().unwrap().split(';').collect();
    Seen {
        paper: fields[0].to_owned(),
        width: fields[1].parse().unwrap(),
        text: fields[2].parse().unwrap(),
        empty: fields[3].parse().unwrap(),
    }
}

fn sample_page() -> String {
    page(&sample(), "2026-01-01", &[]).unwrap()
}

#[test]
fn readable_on_a_desk_and_on_a_phone() {
    let Some(browser) = find() else { return };
    let page = sample_page();
    for (width, dark) in [(1200, false), (1200, true), (360, false)] {
        let seen = look(&browser, &page, width, dark);
        let paper = if dark {
            "rgb(22, 24, 28)"
        } else {
            "rgb(251, 250, 247)"
        };
        assert_eq!(seen.paper, paper);
        assert!(seen.width <= width, "{width}: {seen:?}");
        assert!(seen.text >= 9.0 && seen.empty == 0, "{width}: {seen:?}");
    }
}

/// The width of a PNG, from its first chunk.
fn width(png: &[u8]) -> u32 {
    assert!(png.starts_with(b"\x89PNG"), "no PNG");
    u32::from_be_bytes(png[16..20].try_into().unwrap())
}

#[test]
fn themes_differ_and_paper_is_paper() {
    let Some(browser) = find() else { return };
    let page = sample_page();
    let folder = Temporary::folder("shots").unwrap();
    let shots = [false, true].map(|dark| {
        let file = folder.path().join(format!("{dark}.png"));
        let shot = format!("--screenshot={}", file.display());
        open(
            &browser,
            &[shot, theme(dark), "--window-size=1200,2000".to_owned()],
            &page,
        );
        fs::read(file).unwrap()
    });
    assert_eq!(shots.each_ref().map(|shot| width(shot)), [1200; 2]);
    assert_ne!(shots[0], shots[1]);
    let file = folder.path().join("page.pdf");
    let print = format!("--print-to-pdf={}", file.display());
    open(&browser, &[print, theme(true)], &page);
    let paper = fs::read(file).unwrap();
    assert!(
        paper.starts_with(b"%PDF") && paper.len() > 10_000,
        "{} bytes",
        paper.len()
    );
}
