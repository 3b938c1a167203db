//! What a submission got, part by part, for people and for grading systems.
use serde_json::{Value, json};
use std::fmt::Write;

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

/// All parts of one submission.
#[derive(Debug, Default, Clone)]
pub struct Grade {
    /// In order.
    pub parts: Vec<Part>,
}

impl Grade {
    /// Adds a part.
    pub fn add(&mut self, name: impl Into<String>, points: (f64, f64), words: impl Into<String>) {
        let (name, words) = (name.into(), words.into());
        self.parts.push(Part {
            name,
            points,
            words,
        });
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
        let mut text = String::new();
        for part in &self.parts {
            let (got, most) = part.points;
            let _ = match most > 0.0 {
                true => writeln!(text, "{got:>5.1} of {most:>4.1}  {}", part.name),
                false => writeln!(text, "{:>13}  {}", "", part.name),
            };
            for line in part.words.lines() {
                let _ = writeln!(text, "{:>15}{line}", "");
            }
        }
        let (got, most) = self.total();
        let _ = writeln!(text, "{got:>5.1} of {most:>4.1}  in all");
        text
    }
    /// Gradescope's results.json.
    pub fn json(&self) -> Value {
        let test = |part: &Part| {
            json!({
                "name": part.name, "score": part.points.0, "max_score": part.points.1,
                "output": part.words, "visibility": "visible",
            })
        };
        let (score, most) = self.total();
        let tests: Vec<Value> = self.parts.iter().map(test).collect();
        json!({"score": score, "max_score": most, "output": self.text(), "tests": tests})
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
        grade.not_run("two", 10.0, "one failed");
        assert_eq!(grade.total(), (5.0, 15.0));
        assert!(!grade.full());
        let text = grade.text();
        assert!(
            text.contains("  0.0 of 10.0  two\n               not run: one failed\n"),
            "{text}"
        );
        assert_eq!(grade.json()["tests"][1]["max_score"], 10.0);
    }
}
