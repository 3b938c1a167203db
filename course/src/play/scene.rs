//! The machine behind the page: the program `scene`, which waits for steps at its console.
use crate::picture::{self, State};
use anyhow::{Result, ensure};
use measure::bench;
use serde_json::json;
use tools::host::arch::Arch;
use tools::machine::build::Built;
use tools::machine::qemu::Machine;
use tools::machine::session::Session;

/// What the program's lines begin with.
const BEGIN: &str = "{\"scene\"";

/// Boots, and waits until the program reads.
fn begin(machine: &Machine) -> Result<Session> {
    let mut session = Session::start(machine)?;
    session.expect(BEGIN)?;
    session.expect("\n")?;
    Ok(session)
}

/// One that runs.
pub struct Scene {
    machine: Machine,
    session: Session,
}

impl Scene {
    /// Boots.
    pub fn start(arch: Arch, built: &Built) -> Result<Scene> {
        let mut machine = bench::counted(arch, "256M");
        machine.image.clone_from(&built.image);
        machine.command_line = format!("quiet norandmaps {} -- scene", picture::SWAP);
        Ok(Scene {
            session: begin(&machine)?,
            machine,
        })
    }

    /// Boots again.
    pub fn again(&mut self) -> Result<()> {
        self.session.stop();
        self.session = begin(&self.machine)?;
        Ok(())
    }

    /// Has a step done; a picture of what there is then, and what it took, as JSON.
    pub fn step(&mut self, step: &str) -> Result<String> {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || " -".contains(letter);
        ensure!(
            !step.is_empty() && step.chars().all(plain),
            "no step {step:?}"
        );
        self.session.send(&format!("{step}\n"))?;
        self.session.expect(BEGIN)?;
        let line = self.session.expect("\n")?;
        let state = State::parse(&format!("{BEGIN}{line}"))?;
        let shown = json!({
            "step": state.step,
            "error": state.error,
            "summary": state.summary(),
            "counters": state.counters,
            "picture": picture::svg(&state),
        });
        Ok(shown.to_string())
    }
}
