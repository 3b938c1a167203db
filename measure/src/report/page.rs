//! The page: one file, which loads nothing.
use super::data::Data;
use super::{ablation, conflicts, contpte, cost, frames, html, reclaim, scaling};
use anyhow::Result;
use std::fmt::Write;
use tools::args::Side;
use tools::host::arch::Arch;

const STYLE: &str = include_str!("style.css");

/// A section: its place, its heading, its content.
type Section = (&'static str, &'static str, String);

/// The whole page. `date` says when the newest figures were measured, `files` what they were read
/// from.
pub fn page(data: &Data, date: &str, files: &[String]) -> Result<String> {
    let sections = sections(data)?;
    let mut text = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>What memory costs on Quire and Linux</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <header>\n<h1>What memory costs on Quire and Linux</h1>\n"
    );
    text += &about(data, date);
    text += "<nav aria-label=\"Sections\"><ul>";
    for (id, title, _) in &sections {
        let _ = write!(text, "<li><a href=\"#{id}\">{title}</a></li>");
    }
    text += "</ul></nav>\n</header>\n<main>\n";
    for (id, title, content) in &sections {
        let _ = write!(
            text,
            "<section id=\"{id}\">\n<h2>{title}</h2>\n{content}</section>\n"
        );
    }
    text += "</main>\n<footer>\n<p>Made by <code>./run.sh report";
    if !files.is_empty() {
        let _ = write!(text, " --from {}", html::escape(&files.join(" ")));
    }
    text += "</code>. Below each figure stands the command that measures it; FILE is a name of your choice. \
             One machine of QEMU whose clock counts instructions measures both kernels with one program: \
             instructions, lines and misses repeat exactly on any host.</p>\n</footer>\n</body>\n</html>\n";
    Ok(text)
}

fn sections(data: &Data) -> Result<Vec<Section>> {
    let mut sections = Vec::new();
    for metric in &cost::METRICS {
        let title = match metric.is_instructions() {
            true => "Cost over folio size",
            false => metric.title,
        };
        sections.push((metric.id, title, cost::section(data, metric)?));
    }
    let mut add = |id, title, content| sections.push((id, title, content));
    add("ablation", "The ablation", ablation::section(data)?);
    add("contpte", "Contiguous entries", contpte::section(data)?);
    add(
        "conflicts",
        "Conflicts",
        conflicts::section(&data.conflicts),
    );
    add("scaling", "Several CPUs", scaling::section(data)?);
    add(
        "reclaim",
        "Memory under pressure",
        reclaim::section(&data.reclaim)?,
    );
    add("frames", "Physical memory", frames::section(&data.frames));
    Ok(sections)
}

/// What was measured with what, and when.
fn about(data: &Data, date: &str) -> String {
    let mut text = String::from(
        "<p>The same program on two kernels, in guest instructions, cache lines, misses and estimated cycles for each page of \
         4 KiB, by the size of folios; most vertical axes are in powers of ten.</p>\n<ul class=\"kernels\">\n",
    );
    for arch in Arch::ALL {
        let measured = |side: &Side| data.kernels.contains_key(&(arch, *side));
        let kernels = Side::ALL.into_iter().filter(measured);
        let mut with: Vec<String> = kernels.map(|side| data.kernel(arch, side)).collect();
        with.extend(data.emulators.get(&arch).into_iter().flatten().cloned());
        let models = data.models.get(&arch).into_iter().flatten();
        with.extend(models.map(|core| format!("a model of {core}")));
        if !with.is_empty() {
            let _ = writeln!(text, "<li>{arch}: {}</li>", html::escape(&with.join("; ")));
        }
    }
    let _ = writeln!(
        text,
        "<li>Measured until {}</li>\n</ul>",
        html::escape(date)
    );
    text
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Lines of every kind.
    pub fn sample() -> Data {
        let mut text = String::new();
        for arch in Arch::ALL {
            for (kernel, factor) in [("quire", 1.0), ("linux", 4.0)] {
                for (at, kb) in [4, 64, 2048].into_iter().enumerate() {
                    for op in ["fault", "fork", "reach"] {
                        let cost = factor * 900.0 / (at as f64 + 1.0);
                        let _ = writeln!(
                            text,
                            r#"{{"op":"{op}","folio_kb":{kb},"per_page":{cost},"pages":10,"walks":20,"l1d_misses":70,"lines_touched":400,"cycles_estimated":9000,"arch":"{arch}","kernel":"{kernel}","version":"1.2","cpus":1}}"#
                        );
                    }
                }
                for cpus in [1, 2, 4] {
                    let _ = writeln!(
                        text,
                        r#"{{"op":"cow-seq","folio_kb":64,"per_page":{},"arch":"{arch}","kernel":"{kernel}","version":"1.2","cpus":{cpus}}}"#,
                        factor * 100.0
                    );
                }
                let _ = writeln!(
                    text,
                    r#"{{"first":"fault","second":"fork","place":"folio","arch":"{arch}","kernel":"{kernel}","lines":[{{"object":"zone"}}]}}"#
                );
            }
            for setting in ["baseline", "unified"] {
                let _ = writeln!(
                    text,
                    r#"{{"op":"fork","folio_kb":2048,"per_page":12,"arch":"{arch}","run":"{setting}","words":"w"}}"#
                );
            }
            let _ = writeln!(
                text,
                r#"{{"begin":"frames","kernel":"quire","version":"1.2","arch":"{arch}"}}
{{"frames":512,"first":0,"kb":2048,"state":"first"}}
{{"frames":512,"first":512,"kb":4,"state":"free"}}"#
            );
        }
        text += "{\"compare\":{\"words\":\"contpte=off\",\"machines\":[{\"arch\":\"aarch64\",\"qemu\":\"QEMU 10\"}]}}\n";
        text += r#"{"op":"fault","folio_kb":64,"per_page":50,"pages":10,"walks":30,"arch":"aarch64","kernel":"quire"}"#;
        let mut data = Data::of(&text);
        data.read("reclaim", reclaim::tests::ROWS).unwrap();
        data
    }

    const IDS: [&str; 10] = [
        "instructions",
        "lines",
        "misses",
        "cycles",
        "ablation",
        "contpte",
        "conflicts",
        "scaling",
        "reclaim",
        "frames",
    ];

    /// Every element is closed by its own end, in order.
    fn check_balance(page: &str) {
        const EMPTY: [&str; 1] = ["meta"];
        let body = page.split_once("<html").unwrap().1;
        let mut open = vec!["html"];
        for tag in body.split('<').skip(1) {
            let (tag, _) = tag
                .split_once('>')
                .unwrap_or_else(|| panic!("a tag without its end: {tag}"));
            let name = tag.split([' ', '\n', '/']).next().unwrap_or_default();
            match tag.strip_prefix('/') {
                Some(end) => assert_eq!(open.pop(), Some(end), "{tag}"),
                None if tag.ends_with('/') || EMPTY.contains(&name) => {}
                None => open.push(name),
            }
        }
        assert!(open.is_empty(), "{open:?}");
    }

    #[test]
    fn every_section_with_and_without_data() {
        for data in [sample(), Data::default()] {
            let page = page(&data, "2026-01-01", &["f".to_owned()]).unwrap();
            for id in IDS {
                assert!(page.contains(&format!("<section id=\"{id}\">")), "{id}");
                assert!(page.contains(&format!("href=\"#{id}\"")), "{id}");
            }
            check_balance(&page);
            let missing = page.matches("class=\"missing\"").count();
            assert_eq!(missing, if data.figures.is_empty() { 10 } else { 0 });
        }
    }

    #[test]
    fn nothing_is_loaded() {
        let page = page(&sample(), "2026-01-01", &[]).unwrap();
        for word in [
            "http:", "https:", "//", "url(", "<script", "<link", "<img", "@import", "src=",
        ] {
            assert!(!page.contains(word), "{word}");
        }
    }

    #[test]
    fn kernels_machines_and_date_are_named() {
        let page = page(&sample(), "2026-01-01", &["a&b".to_owned()]).unwrap();
        for text in [
            "Quire 1.2",
            "Linux 1.2",
            "QEMU 10",
            "2026-01-01",
            "report --from a&amp;b",
        ] {
            assert!(page.contains(text), "{text}");
        }
    }

    #[test]
    fn a_figure_has_a_command_and_numbers() {
        let page = page(&sample(), "2026-01-01", &[]).unwrap();
        for section in page.split("<section").skip(1) {
            let id = section.split('"').nth(1).unwrap();
            let figures =
                section.contains("<svg viewBox=\"0 0 320") || section.contains("class=\"matrix\"");
            assert!(figures || id == "frames", "{id}");
            assert!(
                section.contains("class=\"command\"") && section.contains("<details>"),
                "{id}"
            );
        }
    }
}
