//! `./run.sh lab`: the labs of a course. Grades a solution and its tests: what it answers on the
//! host, in the simulated machine and in a kernel, what it costs, and which broken solutions its
//! tests find.
mod grade;
mod handout;
mod host;
mod list;
mod machine;
mod points;
mod sandbox;
mod seams;
mod source;
mod submissions;

use anyhow::Result;
pub use grade::{Limits, Submission, grade, grade_on};
pub use handout::write as write_handout;
pub use host::{Host, Tests};
pub use list::{ANSWER, LABS, Lab};
pub use machine::Machines;
pub use points::Grade;
pub use sandbox::{Sandbox, is_late, sandboxed};
pub use seams::{cargo, copy};
use std::fs;
use tools::args::{LabArgs, LabCommand};
use tools::host::errors::UsageError;
use tools::host::{install, workspace};

/// Grades one lab, or does what an instructor asks for.
pub fn lab(args: &LabArgs) -> Result<u8> {
    match &args.command {
        Some(LabCommand::Handout(args)) => return handout::handout(args),
        Some(LabCommand::Collect(args)) => return submissions::collect(args),
        Some(LabCommand::Grade(args)) => return submissions::grade_all(args),
        None => {}
    }
    let Some(number) = args.number else {
        print!("{}", list::table());
        println!(
            "\nBegin with course/labs/01-order/README.md; ./run.sh lab 1 grades what is there."
        );
        return Ok(0);
    };
    let lab = list::by_number(number)?;
    let from = args.from.as_deref().map(workspace::user_path);
    let from = from.unwrap_or_else(|| lab.folder());
    if let Some(missing) = list::FILES.iter().find(|file| !from.join(file).exists()) {
        return Err(UsageError(format!("{} has no {missing}", from.display())).into());
    }
    let json = workspace::writable("--json", args.json.as_deref())?;
    let arches = match args.host {
        true => &[],
        false => args.machines.arch.arches(),
    };
    if !args.host {
        install::ensure_qemu(arches, args.install.no_install)?;
    }
    // Without --from it is one's own.
    let sandbox = Sandbox::of(args.trust || args.from.is_none())?;
    println!("lab {number}: {}", lab.title);
    let grade = grade(&Submission {
        lab,
        from: &from,
        sandbox,
        arches,
        seed: 0,
        bless: args.bless,
        live: true,
        limits: Limits::OF_GRADES,
    })?;
    print!("{}", grade.sum());
    if args.host {
        println!("The rest is for what it does and costs in a kernel: ./run.sh lab {number}");
    }
    if let Some(path) = json {
        let text = serde_json::to_string_pretty(&grade.json(&grade.first_loss()))?;
        workspace::replace(&path, |new| Ok(fs::write(new, text + "\n")?))?;
    }
    Ok(0)
}
