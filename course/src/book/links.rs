//! Whether each link of a finished book leads to something: a file of it, and a place on that.
use anyhow::{Context, Result, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A page's places, and where its links lead.
#[derive(Default)]
struct Page {
    places: BTreeSet<String>,
    links: Vec<String>,
}

/// Follows all links of the pages in a folder; how many there are.
///
/// # Errors
///
/// When one leads nowhere: all of those are named.
pub fn check(folder: &Path) -> Result<usize> {
    let mut pages = BTreeMap::new();
    read(folder, &mut pages)?;
    let mut count = 0;
    let mut wrong = Vec::new();
    for (path, page) in &pages {
        for link in &page.links {
            count += 1;
            if !leads(path, link, &pages) {
                let page = path.strip_prefix(folder).unwrap_or(path);
                wrong.push(format!("{}: {link}", page.display()));
            }
        }
    }
    ensure!(
        wrong.is_empty(),
        "links that lead nowhere:\n{}",
        wrong.join("\n")
    );
    Ok(count)
}

/// The pages below a folder. 404.html is shown for any path, so its links are not relative to its
/// own.
fn read(folder: &Path, pages: &mut BTreeMap<PathBuf, Page>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            read(&path, pages)?;
        } else if path.extension().is_some_and(|it| it == "html") && !path.ends_with("404.html") {
            let page = page(&fs::read_to_string(&path)?);
            pages.insert(path, page);
        }
    }
    Ok(())
}

fn page(text: &str) -> Page {
    Page {
        places: values(text, " id=\"").collect(),
        links: values(text, " href=\"")
            .chain(values(text, " src=\""))
            .filter(|link| !link.contains(':'))
            .collect(),
    }
}

/// What stands behind this until the next quote. A `<` in a text is written otherwise in HTML, so
/// what looks like an attribute is one.
fn values<'t>(text: &'t str, name: &'t str) -> impl Iterator<Item = String> + 't {
    let rest = text.split(name).skip(1);
    rest.filter_map(|rest| Some(rest.split_once('"')?.0.replace("&amp;", "&")))
}

fn leads(from: &Path, link: &str, pages: &BTreeMap<PathBuf, Page>) -> bool {
    let (path, place) = link.split_once('#').unwrap_or((link, ""));
    let to = match path {
        "" => from.to_owned(),
        path => plain(&from.parent().unwrap_or(from).join(path)),
    };
    match pages.get(&to) {
        Some(page) => place.is_empty() || page.places.contains(place),
        None => to.is_file(),
    }
}

/// A path without `..`, as pages are known by.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part.as_os_str() {
            up if up == ".." => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use tools::host::workspace::Temporary;

    #[test]
    fn what_leads_nowhere_is_named() {
        let folder = Temporary::folder("book").unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        fs::create_dir(folder.path().join("in")).unwrap();
        write(
            "a.html",
            "<a href=\"in/b.html#x\"></a><a href=\"https://c.org\">",
        );
        write(
            "in/b.html",
            "<h1 id=\"x\"><a href=\"../a.html\"></a><a href=\"#x\">",
        );
        assert_eq!(check(folder.path()).unwrap(), 3);
        write("c.html", "<a href=\"in/b.html#y\"></a><img src=\"p.svg\">");
        let error = check(folder.path()).unwrap_err().to_string();
        assert_eq!(
            error,
            "links that lead nowhere:\nc.html: in/b.html#y\nc.html: p.svg"
        );
    }
}
