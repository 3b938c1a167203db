//! Plots as SVG that follows the theme of its page: plotters draws with colours that stand for
//! classes, which take their place afterwards.
use super::html::{number, size};
use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use std::fmt::Write;

/// Width of a panel, in CSS pixels: one fits a phone.
const WIDTH: u32 = 320;
/// Height of a panel of lines.
const HEIGHT: u32 = 210;
/// Height of a bar.
const BAR: u32 = 17;
/// Of text.
const TEXT: i32 = 14;

/// What a colour stands for: an index, which is the class `f3` or `s3` of filling and stroke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ink(pub u8);

impl Ink {
    /// Text and axes.
    pub const TEXT: Ink = Ink(0);
    /// Quire, or a switch that is on.
    pub const QUIRE: Ink = Ink(1);
    /// Linux, or a switch that is off.
    pub const LINUX: Ink = Ink(2);
    /// The floor.
    pub const FLOOR: Ink = Ink(3);
    /// Lines of the grid.
    pub const GRID: Ink = Ink(4);

    fn color(self) -> RGBColor {
        RGBColor(0, 0, self.0)
    }
}

/// A line of a panel.
pub struct Line {
    /// Its colour; the floor is dashed and has no markers, Linux has squares.
    pub ink: Ink,
    /// `(place on the axis, value)`.
    pub points: Vec<(usize, f64)>,
}

impl Line {
    /// Over places, where they have a value.
    pub fn over(ink: Ink, places: &[u64], value: impl Fn(u64) -> Option<f64>) -> Line {
        let points = places.iter().enumerate();
        let points = points.filter_map(|(at, place)| Some((at, value(*place)?)));
        let points = points.collect();
        Line { ink, points }
    }
}

/// How the values of a panel of lines are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// From zero.
    Linear,
    /// By powers of ten.
    Log,
}

/// A panel of lines over places named `places`; `about` is for those who do not see it.
pub fn lines(about: &str, places: &[String], lines: &[Line], scale: Scale) -> Result<String> {
    let points = || lines.iter().flat_map(|line| &line.points);
    let values = || points().map(|(_, value)| *value);
    let most = values().fold(0.0, f64::max);
    let least = values().filter(|value| *value > 0.0).fold(most, f64::min);
    draw(about, (WIDTH, HEIGHT), |area| {
        let mut builder = ChartBuilder::on(area);
        builder
            .margin(6)
            .margin_right(14)
            .x_label_area_size(20)
            .y_label_area_size(54);
        let across = 0..places.len().max(2) as i32 - 1;
        let name = |place: &i32| places.get(*place as usize).cloned().unwrap_or_default();
        // One macro, since each scale is a type of its own.
        macro_rules! on {
            ($chart:expr, $down:expr) => {{
                let mut chart = $chart.map_err(broken)?;
                chart
                    .configure_mesh()
                    .disable_x_mesh()
                    .light_line_style(TRANSPARENT)
                    .bold_line_style(Ink::GRID.color())
                    .axis_style(Ink::GRID.color())
                    .label_style(("sans-serif", TEXT, &Ink::TEXT.color()))
                    .x_labels(places.len())
                    .x_label_formatter(&name)
                    .y_labels(5)
                    .y_label_formatter(&|value| number(*value))
                    .draw()
                    .map_err(broken)?;
                for line in lines {
                    let points = line.points.iter();
                    let points: Vec<(i32, f64)> = points
                        .map(|(at, value)| (*at as i32, $down(*value)))
                        .collect();
                    let style = line.ink.color().stroke_width(2);
                    if line.ink == Ink::FLOOR {
                        let dashes = DashedPathElement::new(points.into_iter(), 5, 3, style);
                        chart.draw_series([dashes]).map_err(broken)?;
                        continue;
                    }
                    chart
                        .draw_series(LineSeries::new(points.clone(), style))
                        .map_err(broken)?;
                    let filled = line.ink.color().filled();
                    for at in points {
                        let mark = EmptyElement::at(at);
                        let drawn = match line.ink {
                            Ink::LINUX => {
                                let square = Rectangle::new([(-3, -3), (4, 4)], filled);
                                chart.draw_series([mark + square])
                            }
                            _ => chart.draw_series([mark + Circle::new((0, 0), 4, filled)]),
                        };
                        drawn.map_err(broken)?;
                    }
                }
            }};
        }
        match scale {
            Scale::Linear => {
                let down = 0.0..(most * 1.08).max(f64::MIN_POSITIVE);
                on!(builder.build_cartesian_2d(across, down), |value| value);
            }
            Scale::Log => {
                let (least, most) = decades(least, most);
                // A little more, so that rounding takes no label at an end away.
                let down = (least * 0.999..most * 1.001).log_scale();
                on!(builder.build_cartesian_2d(across, down), |value: f64| value
                    .max(least));
            }
        }
        Ok(())
    })
}

/// Bounds for an axis by powers of ten: at least one whole decade.
fn decades(least: f64, most: f64) -> (f64, f64) {
    let down = if least > 0.0 {
        least.log10().floor()
    } else {
        0.0
    };
    let up = if most > 0.0 { most.log10().ceil() } else { 1.0 };
    (10f64.powf(down), 10f64.powf(up.max(down + 1.0)))
}

/// A bar, with its name; none when it is the second of its name.
pub struct Bar {
    /// In front of it.
    pub name: String,
    /// Its length.
    pub value: f64,
    /// Its colour.
    pub ink: Ink,
}

impl Bar {
    /// With all that it has.
    pub fn new(name: &str, value: f64, ink: Ink) -> Bar {
        let name = name.to_owned();
        Bar { name, value, ink }
    }
}

/// A panel of bars, one below the other, each with its value behind it. `names` is the width that
/// their names need.
pub fn bars(about: &str, bars: &[Bar], names: u32) -> Result<String> {
    let values = bars.iter().map(|bar| bar.value);
    let most = values.fold(f64::MIN_POSITIVE, f64::max);
    let height = BAR * bars.len() as u32 + 4;
    draw(about, (WIDTH, height), |area| {
        let left = names as i32;
        // The longest value needs room behind its bar.
        let room = WIDTH as f64 - f64::from(names) - 58.0;
        for (at, bar) in bars.iter().enumerate() {
            let top = at as i32 * BAR as i32 + 2;
            let length = (bar.value / most * room).round() as i32;
            let text = Ink::TEXT.color();
            let ink = |anchor| {
                TextStyle::from(("sans-serif", TEXT).into_font())
                    .color(&text)
                    .pos(anchor)
            };
            use plotters::style::text_anchor::{HPos, Pos, VPos};
            let middle = top + BAR as i32 / 2;
            let rect = [
                (left, top + 2),
                (left + length.max(1), top + BAR as i32 - 2),
            ];
            let end = (left + length.max(1) + 4, middle);
            let before = Pos::new(HPos::Right, VPos::Center);
            let behind = Pos::new(HPos::Left, VPos::Center);
            area.draw(&Rectangle::new(rect, bar.ink.color().filled()))
                .map_err(broken)?;
            if !bar.name.is_empty() {
                let name = Text::new(bar.name.clone(), (left - 5, middle), ink(before));
                area.draw(&name).map_err(broken)?;
            }
            area.draw(&Text::new(number(bar.value), end, ink(behind)))
                .map_err(broken)?;
        }
        Ok(())
    })
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// An SVG of this size in CSS pixels.
fn draw(
    about: &str,
    size: (u32, u32),
    body: impl FnOnce(&Area<'_>) -> Result<()>,
) -> Result<String> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        body(&area)?;
        area.present().map_err(broken)?;
    }
    Ok(themed(about, size, &text))
}

/// plotters' error types borrow its backend.
fn broken(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("cannot draw: {error}")
}

/// Classes in place of colours, and no attribute that says what is so anyway.
fn themed(about: &str, (width, height): (u32, u32), svg: &str) -> String {
    let mut text = format!(
        "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\">\n",
        super::html::escape(about)
    );
    let body = svg.split_once(">\n").map_or("", |(_, body)| body);
    let mut rest = body;
    while let Some((before, after)) = rest.split_once('"') {
        let (value, after) = after.split_once('"').unwrap_or((after, ""));
        let at = before.rfind(' ').unwrap_or(0);
        let (head, name) = (&before[..at], before[at..].trim_matches([' ', '=']));
        text += head;
        match (name, ink(value)) {
            ("fill", Some(ink)) => drop(write!(text, " class=\"f{ink}\"")),
            ("stroke", Some(ink)) => drop(write!(text, " class=\"s{ink}\"")),
            ("opacity", _) if value == "1" => {}
            ("stroke" | "font-family", _) => {}
            ("stroke-width", _) if head.contains("<circle") || value == "1" => {}
            ("points", _) => drop(write!(text, " points=\"{}\"", value.trim_end())),
            _ => drop(write!(text, " {name}=\"{value}\"")),
        }
        rest = after;
    }
    text += rest;
    // plotters puts the text of an element on a line of its own.
    text.replace(">\n</text>", "></text>")
}

/// The index of a colour that stands for a class.
fn ink(value: &str) -> Option<u8> {
    u8::from_str_radix(value.strip_prefix("#0000")?, 16).ok()
}

/// Names of folio sizes for an axis.
pub fn sizes(all: &[u64]) -> Vec<String> {
    all.iter().map(|kb| size(*kb)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{has, lacks};

    fn panel(scale: Scale) -> String {
        let line = |ink, points: &[(usize, f64)]| Line {
            ink,
            points: points.to_vec(),
        };
        let all = [
            line(Ink::QUIRE, &[(0, 12.0), (1, 700.0)]),
            line(Ink::LINUX, &[(0, 50.0), (1, 70.0)]),
            line(Ink::FLOOR, &[(0, 5.0), (1, 7.0)]),
        ];
        lines("a <panel>", &sizes(&[4, 64]), &all, scale).unwrap()
    }

    #[test]
    fn colours_are_the_page_s() {
        for scale in [Scale::Linear, Scale::Log] {
            let svg = panel(scale);
            lacks(&svg, "#");
            lacks(&svg, "http");
            assert!(
                svg.starts_with("<svg viewBox=\"0 0 320 210\" role=\"img\""),
                "{svg}"
            );
            has(&svg, "aria-label=\"a &lt;panel&gt;\"");
            for class in ["s1", "f2", "s3", "f0"] {
                has(&svg, &format!("class=\"{class}\""));
            }
        }
    }

    #[test]
    fn axes_name_sizes_and_decades() {
        let svg = panel(Scale::Log);
        for label in ["4k", "64k", "10", "100", "1,000"] {
            let shown = |text: &str| text.trim() == label;
            assert!(svg.split(['>', '<']).any(shown), "{label} is not in {svg}");
        }
        assert_eq!(decades(12.0, 700.0), (10.0, 1000.0));
        assert_eq!(decades(20.0, 30.0), (10.0, 100.0));
        assert_eq!(decades(0.0, 0.0), (1.0, 10.0));
    }

    #[test]
    fn bars_are_as_long_as_their_values() {
        let bar = |name: &str, value| Bar::new(name, value, Ink::QUIRE);
        let svg = bars("x", &[bar("a", 100.0), bar("b", 50.0)], 40).unwrap();
        let width = |text: &str| {
            text.split_once(" width=\"")?
                .1
                .split('"')
                .next()?
                .parse()
                .ok()
        };
        let widths: Vec<u32> = svg.split("<rect").skip(1).filter_map(width).collect();
        assert_eq!(widths, [222, 111]);
    }
}
