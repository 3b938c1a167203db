//! `./run.sh compare --time PROGRAM`: how long a program takes on both kernels, on machines that
//! share the CPUs of this computer. The machines run one at a time, and the two kernels in turn;
//! what a boot with a program that does nothing takes is taken out.
use crate::bench;
use crate::kernels::Kernels;
use anyhow::{Context, Result, ensure};
use std::time::{Duration, Instant};
use tools::args::Side;
use tools::host::arch::Arch;
use tools::host::meter;
use tools::host::progress::Bar;
use tools::machine::console::Boot;
use tools::machine::guest::End;

/// Memory of the machines, in MiB.
const MIB: u64 = 1024;
/// A program of the archive that does nothing.
const NOTHING: &str = "nothing";

/// What a machine has taken, or a program on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Taken {
    /// Time that passed.
    wall: Duration,
    /// CPU time of QEMU, which is all of the machine.
    cpu: Duration,
}

/// What the machines of one kernel have taken, with the program and without it.
#[derive(Default)]
struct Machines {
    with: Vec<Taken>,
    without: Vec<Taken>,
}

impl Machines {
    /// The medians of the program.
    fn program(&self) -> Taken {
        let of = |part: fn(&Taken) -> Duration| {
            let [with, without] = [&self.with, &self.without]
                .map(|all| median(all.iter().map(part).collect::<Vec<_>>()));
            with.saturating_sub(without)
        };
        Taken {
            wall: of(|taken| taken.wall),
            cpu: of(|taken| taken.cpu),
        }
    }
}

/// Of an odd number the one in the middle, of an even one the longer of the two.
fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Measures for each machine with each number of CPUs, and prints a line for each.
pub fn compare(
    kernels: &Kernels,
    arches: &[Arch],
    smp: &[u32],
    program: &str,
    runs: u32,
) -> Result<()> {
    println!("{program}: medians of {runs} machines of each kernel, boots taken out");
    println!("                     wall s                   CPU s");
    println!("machine   CPUs   Quire   Linux   ratio   Quire   Linux   ratio");
    for arch in arches {
        for cpus in smp {
            let mut bar = Bar::new("timing", u64::from(runs) * 4);
            let mut machines = Side::ALL.map(|_| Machines::default());
            for _ in 0..runs {
                for (side, machines) in Side::ALL.into_iter().zip(&mut machines) {
                    let mut boot = |line| {
                        let taken = boot(kernels, *arch, side, *cpus, line);
                        bar.step(1);
                        taken
                    };
                    machines.without.push(boot(NOTHING)?);
                    machines.with.push(boot(program)?);
                }
            }
            let [quire, linux] = machines.map(|machines| machines.program());
            bar.clear();
            println!("{}", line(*arch, *cpus, quire, linux));
        }
    }
    Ok(())
}

fn line(arch: Arch, cpus: u32, quire: Taken, linux: Taken) -> String {
    let three = |quire: Duration, linux: Duration| {
        let [quire, linux] = [quire, linux].map(|time| time.as_secs_f64());
        format!("{quire:>8.2}{linux:>8.2}{:>8.2}", quire / linux)
    };
    let (wall, cpu) = (three(quire.wall, linux.wall), three(quire.cpu, linux.cpu));
    format!("{:<8}{cpus:>6}{wall}{cpu}", arch.name())
}

/// Boots one machine until its program has ended.
fn boot(kernels: &Kernels, arch: Arch, side: Side, cpus: u32, line: &str) -> Result<Taken> {
    let mut machine = kernels.machine(arch, side, MIB, cpus, line)?;
    // Its CPUs run side by side, and its clock is the host's.
    machine.icount = false;
    machine.alone = true;
    let used = || meter::children().context("the system does not say what QEMU has used");
    let (began, before) = (Instant::now(), used()?);
    let boot = bench::watch(&machine, |_| {})?;
    ensure!(
        has_worked(side, &boot),
        "{} on {arch}: {line} ended with {:?}\n{}",
        side.title(),
        boot.end,
        boot.text
    );
    Ok(Taken {
        wall: began.elapsed(),
        cpu: used()?.saturating_sub(before),
    })
}

/// Whether the program has ended with status 0. Linux panics when its init ends, and says with
/// which.
fn has_worked(side: Side, boot: &Boot) -> bool {
    match side {
        Side::Quire => boot.end == End::Status(0),
        Side::Linux => boot.text.contains("exitcode=0x00000000"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_is_taken_out() {
        let taken = |wall, cpu| Taken {
            wall: Duration::from_millis(wall),
            cpu: Duration::from_millis(cpu),
        };
        let machines = Machines {
            with: vec![taken(900, 1500), taken(500, 1700), taken(700, 1600)],
            without: vec![taken(200, 100), taken(9000, 200), taken(100, 300)],
        };
        assert_eq!(machines.program(), taken(500, 1400));
        let text = line(Arch::X86_64, 4, taken(500, 1400), taken(1000, 700));
        assert_eq!(
            text,
            "x86_64       4    0.50    1.00    0.50    1.40    0.70    2.00"
        );
    }
}
