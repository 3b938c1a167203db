//! The pages as mdBook wants them: below one folder, with a list of them, and without links to what
//! is not in the book.
use anyhow::{Context, Result, bail, ensure};
use pulldown_cmark::{Event, LinkType, Options, Parser, Tag};
use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::Path;

/// The list of pages, whose links are relative to its folder as anybody's.
const LIST: &str = "docs/book/SUMMARY.md";

/// Pages by their paths in the project, with their paths in the book.
type Pages = BTreeMap<String, String>;

/// Writes all pages of the project at `root`, and the pictures that they show; how many pages.
pub fn lay_out(root: &Path, to: &Path) -> Result<usize> {
    let list = fs::read_to_string(root.join(LIST)).context(LIST)?;
    let mut pages = Pages::new();
    for link in links(&list) {
        let path = resolve(LIST, &link.path())
            .with_context(|| format!("{LIST}: {} is not a page here", link.target))?;
        let place = in_book(&path);
        ensure!(
            pages.insert(path, place).is_none(),
            "{LIST}: {} is there twice",
            link.target
        );
    }
    let mut pictures = BTreeMap::new();
    for (path, place) in &pages {
        let text = fs::read_to_string(root.join(path)).with_context(|| path.clone())?;
        write(to, place, rewrite(path, &text, &pages, &mut pictures)?)?;
    }
    for path in pictures.keys() {
        let bytes = fs::read(root.join(path)).with_context(|| format!("no picture {path}"))?;
        write(to, path, bytes)?;
    }
    let place = |link: &Link| Some(pages[&resolve(LIST, &link.path())?].clone());
    write(to, "SUMMARY.md", replaced(&list, place))?;
    Ok(pages.len())
}

fn write(to: &Path, path: &str, content: impl AsRef<[u8]>) -> Result<()> {
    let path = to.join(path);
    fs::create_dir_all(path.parent().context("no folder")?)?;
    Ok(fs::write(path, content)?)
}

/// Where a page stands in the book: a folder's first page is its index.
fn in_book(path: &str) -> String {
    match path.strip_suffix("README.md") {
        Some(folder) => format!("{folder}index.md"),
        None => path.to_owned(),
    }
}

/// A link or picture of a page.
struct Link {
    /// Where it stands, with its brackets.
    place: Range<usize>,
    target: String,
    /// Whether it is a picture.
    shown: bool,
}

impl Link {
    /// What it names, without a place on that page.
    fn path(&self) -> String {
        let path = self.target.split('#').next();
        path.unwrap_or_default().to_owned()
    }
    /// The place on the page, with its `#`.
    fn fragment(&self) -> &str {
        let at = self.target.find('#');
        at.map_or("", |at| &self.target[at..])
    }
    /// Whether it leads to an address, or to a place on the same page.
    fn is_elsewhere(&self) -> bool {
        self.target.contains("://") || self.path().is_empty()
    }
    /// The words that are underlined.
    fn words<'t>(&self, text: &'t str) -> &'t str {
        let all = &text[self.place.clone()];
        let end = all.rfind("](").unwrap_or(all.len());
        &all[1..end]
    }
}

/// Those with their target beside them, in order.
fn links(text: &str) -> Vec<Link> {
    let parser = Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter();
    let link = |(event, place)| match event {
        Event::Start(Tag::Link {
            link_type: LinkType::Inline,
            dest_url,
            ..
        }) => Some((place, dest_url, false)),
        Event::Start(Tag::Image {
            link_type: LinkType::Inline,
            dest_url,
            ..
        }) => Some((place, dest_url, true)),
        _ => None,
    };
    let found = parser.filter_map(link);
    found
        .map(|(place, target, shown)| Link {
            place,
            target: target.into_string(),
            shown,
        })
        .collect()
}

/// The path in the project of what a page names, if that is below the root.
fn resolve(page: &str, target: &str) -> Option<String> {
    let mut path: Vec<&str> = page.split('/').collect();
    path.pop();
    for part in target.split('/') {
        match part {
            ".." => drop(path.pop()?),
            "." | "" => {}
            part => path.push(part),
        }
    }
    Some(path.join("/"))
}

/// Text with other targets for some of its links.
fn replaced(text: &str, target: impl Fn(&Link) -> Option<String>) -> String {
    let mut new = String::new();
    let mut at = 0;
    for link in links(text) {
        let Some(target) = target(&link) else {
            continue;
        };
        new += &text[at..link.place.start];
        new += &format!("[{}]({target})", link.words(text));
        at = link.place.end;
    }
    new + &text[at..]
}

/// A page with links to other pages of the book; of what is not in it, the path is left.
fn rewrite(
    page: &str,
    text: &str,
    pages: &Pages,
    pictures: &mut BTreeMap<String, ()>,
) -> Result<String> {
    let mut new = String::new();
    let mut at = 0;
    for link in links(text) {
        if link.is_elsewhere() {
            continue;
        }
        let path = resolve(page, &link.path());
        let path = path.with_context(|| format!("{page}: {} is not here", link.target))?;
        if link.shown || path.ends_with(".html") {
            pictures.insert(path, ());
            continue;
        }
        if link.place.start < at {
            bail!("{page}: a link in a link: {}", link.target);
        }
        new += &text[at..link.place.start];
        let words = link.words(text);
        new += &match pages.contains_key(&path) {
            true => format!("[{words}]({}{})", in_book(&link.path()), link.fragment()),
            false if words.contains('`') || words.contains(&path) => words.to_owned(),
            false => format!("{words} (`{path}`)"),
        };
        at = link.place.end;
    }
    Ok(new + &text[at..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(text: &str) -> (String, Vec<String>) {
        let pages = ["docs/a.md", "labs/README.md"];
        let pages = pages.map(|path| (path.to_owned(), in_book(path)));
        let mut pictures = BTreeMap::new();
        let text = rewrite("docs/a.md", text, &pages.into(), &mut pictures).unwrap();
        (text, pictures.into_keys().collect())
    }

    #[test]
    fn links_to_pages_stay_and_paths_are_left_of_others() {
        let text = "[all](../labs/README.md#x) and [this](#y), [it](../src/lib.rs), [`b`](b.rs), [w](https://w.org)";
        let (new, pictures) = rewritten(text);
        assert_eq!(
            new,
            "[all](../labs/index.md#x) and [this](#y), it (`src/lib.rs`), `b`, [w](https://w.org)"
        );
        assert!(pictures.is_empty());
    }

    #[test]
    fn pictures_come_with_the_page() {
        let (new, pictures) = rewritten("![p](p.svg) [r](report/index.html)");
        assert_eq!(new, "![p](p.svg) [r](report/index.html)");
        assert_eq!(pictures, ["docs/p.svg", "docs/report/index.html"]);
    }

    #[test]
    fn code_has_no_links() {
        let text = "`[a](b.rs)`\n\n```\n[a](b.rs)\n```\n";
        assert_eq!(rewritten(text).0, text);
    }

    #[test]
    fn a_page_above_the_project_is_none() {
        assert_eq!(
            resolve("docs/a.md", "../b/./c.md").as_deref(),
            Some("b/c.md")
        );
        assert_eq!(resolve("docs/a.md", "../../c.md"), None);
    }
}
