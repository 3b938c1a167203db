//! The labs that there are.
use std::path::PathBuf;
use tools::host::arch::Arch;
use tools::host::errors::UsageError;
use tools::host::workspace;

/// The files that are a student's.
pub const FILES: [&str; 2] = ["solution.rs", "tests.rs"];

/// A student's file that people read, beside those that are graded.
pub const WORDS: &str = "answers.md";

/// The folder of a lab's answer, in that of the lab.
pub const ANSWER: &str = "answer";

/// A lab.
#[derive(Debug)]
pub struct Lab {
    /// Its number.
    pub number: u32,
    /// Its title.
    pub title: &'static str,
    /// Its folder in `course/labs/`.
    folder: &'static str,
    /// The feature of the crates that builds it: `lab-FEATURE` in the kernel.
    pub feature: &'static str,
    /// More words of the kernel's command line, behind a blank.
    pub words: &'static str,
    /// A program that the machine runs without counting, for its checks.
    pub program: &'static str,
    /// With so many CPUs.
    pub cpus: u32,
    /// Operations of the bench that it is about, at these folio sizes in kB.
    pub cost: &'static [(&'static str, &'static [u32])],
    /// Its points.
    pub points: Points,
}

/// Points that can be had.
#[derive(Debug, Clone, Copy)]
pub struct Points {
    /// Of the tests that come with the lab: the sum of what stands at each.
    pub public: f64,
    /// Of those that a handout does not have.
    pub held_back: f64,
    /// In the simulated machine.
    pub simulated: f64,
    /// In QEMU.
    pub machine: f64,
    /// Of the operations of the bench.
    pub cost: f64,
    /// For the student's tests.
    pub tests: f64,
}

/// All of them.
pub const LABS: &[Lab] = &[ORDER, BUDDY, ANON, CONTPTE, FORK, OWNER, MREMAP, GATHER];

/// About a second of a CPU. Each run makes the same choices: a grade does not depend on them.
const TORTURE: &str = "torture --steps 2000 --seed 1";

const ORDER: Lab = Lab {
    number: 1,
    title: "Which order: the policy of a fault",
    folder: "01-order",
    feature: "order",
    words: "",
    program: TORTURE,
    cpus: 1,
    cost: &[("fault", &[4, 64, 2048])],
    points: Points {
        public: 30.0,
        held_back: 10.0,
        simulated: 10.0,
        machine: 10.0,
        cost: 20.0,
        tests: 20.0,
    },
};

const BUDDY: Lab = Lab {
    number: 2,
    title: "Buddy lists with per-CPU caches: split, merge, refill, drain",
    folder: "02-buddy",
    feature: "buddy",
    words: "",
    program: TORTURE,
    cpus: 1,
    cost: &[("fault", &[4, 64]), ("dontneed", &[4, 64])],
    points: Points {
        public: 35.0,
        held_back: 5.0,
        simulated: 10.0,
        machine: 10.0,
        cost: 20.0,
        tests: 20.0,
    },
};

const ANON: Lab = Lab {
    number: 3,
    title: "The anonymous fault and the page of zeros",
    folder: "03-anon",
    feature: "anon",
    words: "",
    program: TORTURE,
    cpus: 1,
    cost: &[("fault", &[4, 64])],
    points: Points {
        public: 35.0,
        held_back: 5.0,
        simulated: 10.0,
        machine: 10.0,
        cost: 20.0,
        tests: 20.0,
    },
};

const CONTPTE: Lab = Lab {
    number: 4,
    title: "The contiguous bit: fold, unfold, accessed and dirty",
    folder: "04-contpte",
    feature: "contpte",
    words: "",
    program: TORTURE,
    cpus: 1,
    cost: &[("fault", &[64]), ("dontneed", &[64]), ("protect", &[4, 64])],
    points: Points {
        public: 35.0,
        held_back: 5.0,
        simulated: 10.0,
        machine: 10.0,
        cost: 20.0,
        tests: 20.0,
    },
};

const FORK: Lab = Lab {
    number: 5,
    title: "Fork in batches",
    folder: "05-fork",
    feature: "fork",
    // Else whole tables are shared.
    words: " fork=batch",
    program: TORTURE,
    cpus: 2,
    cost: &[("fork", &[4, 64, 2048])],
    points: Points {
        public: 35.0,
        held_back: 5.0,
        simulated: 10.0,
        machine: 10.0,
        cost: 20.0,
        tests: 20.0,
    },
};

const OWNER: Lab = Lab {
    number: 6,
    title: "Who has this folio: count, slots, or one word; copy or reuse",
    folder: "06-owner",
    feature: "owner",
    // A fork that shares tables asks nobody who has the folios.
    words: " fork=batch",
    program: TORTURE,
    cpus: 2,
    cost: &[
        ("fork", &[64]),
        ("munmap", &[64]),
        ("reuse-byte", &[64, 2048]),
        ("survivor", &[64]),
    ],
    points: Points {
        public: 35.0,
        held_back: 5.0,
        simulated: 10.0,
        machine: 10.0,
        cost: 20.0,
        tests: 20.0,
    },
};

const MREMAP: Lab = Lab {
    number: 7,
    title: "mremap by whole tables",
    folder: "07-mremap",
    feature: "mremap",
    words: "",
    program: TORTURE,
    cpus: 1,
    cost: &[("mremap", &[4, 64, 2048])],
    points: Points {
        public: 35.0,
        held_back: 5.0,
        simulated: 10.0,
        machine: 10.0,
        cost: 20.0,
        tests: 20.0,
    },
};

const GATHER: Lab = Lab {
    number: 8,
    title: "Flush and free: the gather, and with many CPUs the shootdown",
    folder: "08-gather",
    feature: "gather",
    words: "",
    program: TORTURE,
    cpus: 2,
    cost: &[("munmap", &[4]), ("dontneed", &[4, 64]), ("protect", &[4])],
    points: Points {
        public: 35.0,
        held_back: 5.0,
        simulated: 10.0,
        machine: 10.0,
        cost: 20.0,
        tests: 20.0,
    },
};

impl Lab {
    /// Its folder.
    pub fn folder(&self) -> PathBuf {
        workspace::root().join("course/labs").join(self.folder)
    }
    /// Its answer, which handouts have not got.
    pub fn answer(&self) -> PathBuf {
        self.folder().join(ANSWER)
    }
    /// What its answer costs on a machine.
    pub fn costs(&self, arch: Arch) -> PathBuf {
        self.folder().join(format!("cost-{arch}.txt"))
    }
}

/// The lab of this number.
pub fn by_number(number: u32) -> Result<&'static Lab, UsageError> {
    let known = || LABS.iter().map(|lab| lab.number.to_string());
    LABS.iter().find(|lab| lab.number == number).ok_or_else(|| {
        let known = known().collect::<Vec<_>>().join(", ");
        UsageError(format!("there is no lab {number}; there are {known}"))
    })
}

/// A line for each.
pub fn table() -> String {
    let line = |lab: &Lab| format!("{:>3}  {}\n", lab.number, lab.title);
    LABS.iter().map(line).collect()
}
