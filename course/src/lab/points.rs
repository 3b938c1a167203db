//! What a submission got, part by part, for people and for grading systems.
use serde_json::{Value, json};
use std::fmt;

/// A part of the points.
#[derive(Debug, Clone)]
pub struct Part {
    /// What it is for.
    pub name: String,
    /// What was got, and what could be.
    pub points: (f64, f64),
    /// What a student should read.
    pub words: String,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (got, most) = self.points;
        match most > 0.0 {
            true => writeln!(f, "{got:>5.1} of {most:>4.1}  {}", self.name)?,
            false => writeln!(f, "{:>13}  {}", "", self.name)?,
        }
        let mut lines = self.words.lines();
        lines.try_for_each(|line| writeln!(f, "{:>15}{line}", ""))
    }
}

/// All parts of one submission.
#[derive(Debug, Default, Clone)]
pub struct Grade {
    /// In order.
    pub parts: Vec<Part>,
    /// Each part is printed at once, so that one who breaks off has what is known by then.
    pub live: bool,
}

impl Grade {
    /// Adds a part.
    pub fn add(&mut self, name: impl Into<String>, points: (f64, f64), words: impl Into<String>) {
        let (name, words) = (name.into(), words.into());
        let part = Part {
            name,
            points,
            words,
        };
        if self.live {
            print!("{part}");
        }
        self.parts.push(part);
    }
    /// Says what comes next, where somebody waits for it.
    pub fn begin(&self, what: &str) {
        if self.live {
            eprintln!("run.sh: {what}");
        }
    }
    /// Adds a part of which nothing was got, because of what came before.
    pub fn not_run(&mut self, name: &str, most: f64, why: &str) {
        self.add(name, (0.0, most), format!("not run: {why}"));
    }
    /// What was got, and what could be.
    pub fn total(&self) -> (f64, f64) {
        let add = |sum: (f64, f64), part: &Part| (sum.0 + part.points.0, sum.1 + part.points.1);
        self.parts.iter().fold((0.0, 0.0), add)
    }
    /// Whether all points were got.
    pub fn full(&self) -> bool {
        let (got, most) = self.total();
        most - got < 1e-9
    }
    /// For people.
    pub fn text(&self) -> String {
        let parts: String = self.parts.iter().map(Part::to_string).collect();
        parts + &self.sum()
    }
    /// The last line of the text.
    pub fn sum(&self) -> String {
        let (got, most) = self.total();
        format!("{got:>5.1} of {most:>4.1}  in all\n")
    }
    /// The first part that went wrong, and why, in a line; "all" where none did. A part without
    /// points may be the cause of what is lost after it.
    pub fn first_loss(&self) -> String {
        let is_wrong = |part: &&Part| match part.points {
            (_, 0.0) => !part.words.is_empty(),
            (got, most) => most - got > 1e-9,
        };
        let first = self.parts.iter().find(is_wrong);
        first.map_or_else(
            || "all".to_owned(),
            |part| {
                let mut lines = part.words.lines().map(str::trim);
                let why = lines.next().unwrap_or_default();
                // Such a line says what the next one is.
                let next = lines.next().filter(|_| why.ends_with(':'));
                format!("{}: {why} {}", part.name, next.unwrap_or_default())
                    .trim_end()
                    .to_owned()
            },
        )
    }
    /// Gradescope's results.json, of which the output begins with a line.
    pub fn json(&self, first: &str) -> Value {
        let test = |part: &Part| {
            json!({
                "name": part.name, "score": part.points.0, "max_score": part.points.1,
                "output": part.words, "visibility": "visible",
            })
        };
        let (score, most) = self.total();
        let tests: Vec<Value> = self.parts.iter().map(test).collect();
        let output = format!("{first}\n\n{}", self.text());
        json!({"score": score, "max_score": most, "output": output, "tests": tests})
    }
}

/// Points for a cost: all up to 1.05 of the answer's, none from twice that on.
pub fn of_cost(most: f64, cost: f64, answer: f64) -> f64 {
    const FULL: f64 = 1.05;
    let part = (2.0 - cost / answer) / (2.0 - FULL);
    most * part.clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_counts_from_the_answers_to_twice_that() {
        assert_eq!(of_cost(20.0, 90.0, 100.0), 20.0);
        assert_eq!(of_cost(20.0, 105.0, 100.0), 20.0);
        assert_eq!(of_cost(20.0, 200.0, 100.0), 0.0);
        assert_eq!(of_cost(20.0, 900.0, 100.0), 0.0);
        let half = of_cost(20.0, 152.5, 100.0);
        assert!((half - 10.0).abs() < 1e-6, "{half}");
    }

    #[test]
    fn parts_add_up() {
        let mut grade = Grade::default();
        grade.add("one", (5.0, 5.0), "");
        assert!(grade.full());
        assert_eq!(grade.first_loss(), "all");
        grade.not_run("two", 10.0, "one failed");
        assert_eq!(grade.total(), (5.0, 15.0));
        assert!(!grade.full());
        let text = grade.text();
        assert!(
            text.contains("  0.0 of 10.0  two\n               not run: one failed\n"),
            "{text}"
        );
        assert_eq!(grade.json("two: not run")["tests"][1]["max_score"], 10.0);
    }
}
