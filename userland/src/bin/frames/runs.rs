//! Frames side by side that are alike.
use crate::state::State;

/// A run of frames.
#[derive(Debug, PartialEq, Eq)]
pub struct Run {
    /// The first frame's number.
    pub first: usize,
    /// How many.
    pub frames: usize,
    /// What they are used for.
    pub state: State,
    /// The size of their folios in kB.
    pub kb: usize,
}

impl Run {
    /// One line.
    pub fn to_json(&self) -> String {
        let Run {
            first,
            frames,
            state,
            kb,
        } = self;
        let state = format!("{state:?}").to_lowercase();
        format!("{{\"frames\":{frames},\"first\":{first},\"kb\":{kb},\"state\":\"{state}\"}}")
    }
}

/// From each frame's state and folio size in frames; what is no memory is left out.
pub fn runs(states: &[(State, usize)]) -> Vec<Run> {
    let mut first = 0;
    let mut runs = Vec::new();
    for alike in states.chunk_by(|a, b| a == b) {
        let (state, folio) = alike[0];
        if state != State::None {
            runs.push(Run {
                first,
                frames: alike.len(),
                state,
                kb: folio * 4,
            });
        }
        first += alike.len();
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alike_is_one_run() {
        let states = [
            (State::None, 1),
            (State::First, 4),
            (State::First, 4),
            (State::First, 1),
            (State::Free, 1),
        ];
        let lines: Vec<String> = runs(&states).iter().map(Run::to_json).collect();
        assert_eq!(
            lines,
            [
                r#"{"frames":2,"first":1,"kb":16,"state":"first"}"#,
                r#"{"frames":1,"first":3,"kb":4,"state":"first"}"#,
                r#"{"frames":1,"first":4,"kb":4,"state":"free"}"#,
            ]
        );
    }
}
