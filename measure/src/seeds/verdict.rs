//! When a figure agrees with a thread's. The rule was chosen before the figures were looked at.
use super::table::Value;

/// The rule, for readers.
pub const RULE: &str = "\
A figure of Quire's *agrees* with the thread's, of which there may be several for several machines, when it is between the least and
the largest of them or at most 5 points beside (the threads themselves do not worry \"about 5 % or so\"), or when it has the sign of one of
them and is between half and twice it. It is *better* (`+`) when it does not agree, but costs less than all of them say. Else it *differs*
(`!`), and the reason stands below the table; without one the command fails. A factor agrees between half and twice the thread's, and a
count when it is the same in hundredths.";

/// What a figure of Quire's is beside those of the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The same, by the rule.
    Agrees,
    /// Cheaper than in the thread.
    Better,
    /// Dearer.
    Differs,
}

/// Points by which per cent of a run time may miss.
const NOISE: f64 = 5.0;
/// Sizes of the same order.
const ORDER: f64 = 2.0;

/// Judges a figure beside the thread's.
pub fn judge(value: &Value, here: f64, thread: &[f64]) -> Verdict {
    match value {
        Value::Change(..) => per_cent(here, thread),
        Value::Gain(..) => {
            let turned: Vec<f64> = thread.iter().map(|figure| -figure).collect();
            per_cent(-here, &turned)
        }
        Value::Times(..) => {
            let near = |there: &f64| same_order(here, *there);
            verdict(thread.iter().any(near), here > largest(thread))
        }
        Value::PerFolio(..) | Value::PerPage(..) | Value::More(..) => {
            let near = |there: &f64| (here * 100.0).round() == (there * 100.0).round();
            verdict(thread.iter().any(near), here < least(thread))
        }
    }
}

/// Less is better.
fn per_cent(here: f64, thread: &[f64]) -> Verdict {
    let inside = (least(thread) - NOISE..=largest(thread) + NOISE).contains(&here);
    let near = |there: &f64| same_order(here, *there);
    verdict(inside || thread.iter().any(near), here < least(thread))
}

fn verdict(agrees: bool, cheaper: bool) -> Verdict {
    match (agrees, cheaper) {
        (true, _) => Verdict::Agrees,
        (false, true) => Verdict::Better,
        (false, false) => Verdict::Differs,
    }
}

/// The same sign, and between half and twice.
fn same_order(here: f64, there: f64) -> bool {
    here * there > 0.0 && (1.0 / ORDER..=ORDER).contains(&(here / there))
}

fn least(figures: &[f64]) -> f64 {
    figures.iter().copied().fold(f64::INFINITY, f64::min)
}

fn largest(figures: &[f64]) -> f64 {
    figures.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

#[cfg(test)]
mod tests {
    use super::super::table::Point;
    use super::*;
    use Verdict::{Agrees, Better, Differs};

    fn point() -> Point {
        Point::new("", "fork", 4)
    }

    fn change() -> Value {
        Value::Change(point(), point())
    }

    #[test]
    fn per_cent_of_a_run_time() {
        for (here, thread, verdict) in [
            (-2.0, &[-30.0][..], Differs),
            (-15.0, &[-30.0], Agrees),
            (-60.0, &[-30.0], Agrees),
            (-60.1, &[-30.0], Better),
            (4.9, &[0.0], Agrees),
            (5.1, &[0.0], Differs),
            (-5.1, &[0.0], Better),
            (40.0, &[10.0, 70.0], Agrees),
            (150.0, &[10.0, 70.0], Differs),
            (3.0, &[100.0], Better),
        ] {
            assert_eq!(judge(&change(), here, thread), verdict, "{here} {thread:?}");
        }
    }

    #[test]
    fn more_may_be_better() {
        let gain = Value::Gain(point(), point());
        assert_eq!(judge(&gain, 12.0, &[8.77]), Agrees);
        assert_eq!(judge(&gain, 40.0, &[8.77]), Better);
        assert_eq!(judge(&gain, -1.0, &[8.77]), Differs);
        let times = Value::Times(point(), point());
        assert_eq!(judge(&times, 6.5, &[13.0]), Agrees);
        assert_eq!(judge(&times, 27.0, &[13.0]), Better);
        assert_eq!(judge(&times, 3.4, &[13.0]), Differs);
    }

    #[test]
    fn counts_are_exact() {
        let count = Value::PerFolio(point(), "pgfault");
        assert_eq!(judge(&count, 1.004, &[1.0]), Agrees);
        assert_eq!(judge(&count, 1.006, &[1.0]), Differs);
        assert_eq!(judge(&count, 0.5, &[1.0]), Better);
    }
}
