//! Debian's own programs, dynamic as they are packed: a shell script as /init starts them.
use crate::debian;
use crate::guest::End;
use crate::qemu::Machine;
use crate::rootfs;
use crate::test::console;
use crate::test::outcome::Outcome;
use crate::test::programs::skipped;
use crate::workspace::Temporary;
use anyhow::Result;
use std::time::Duration;

/// Emulated, python3 takes seconds to start.
const LIMIT: Duration = Duration::from_secs(300);
const NAME: &str = "debian";
const PACKAGES: [&str; 8] = [
    "base-files",
    "bash",
    "coreutils",
    "mount",
    "perl-base",
    "python3-minimal",
    "sed",
    "sqlite3",
];

/// A script for bash, and what it must print.
pub struct Case {
    /// As a part of the test's name.
    pub name: &'static str,
    script: &'static str,
    prints: &'static str,
}

/// The last line of each script ends with this status.
const ENDS: u8 = 5;

/// The cases.
pub const CASES: [Case; 4] = [
    Case {
        name: "bash",
        script: "words=(one two three)
echo \"${#words[@]} ${words[-1]^^} $((2**40))\"
sevens() { while read -r n; do [[ $n == *7* ]] && echo \"$n\"; done; }
seq 1 1000 | sevens | sort -rn | tee /tmp/sevens | wc -l
head -n1 /tmp/sevens
sed -n '2s/9/nine/gp' /tmp/sevens
for i in {1..50}; do (exit 3); sum=$((sum + $?)); done; echo \"sum $sum\"
coproc cat; echo through a pipe >&\"${COPROC[1]}\"; read -r line <&\"${COPROC[0]}\"; echo \"$line\"
exec {COPROC[1]}>&-; wait
trap 'echo caught' USR1; kill -USR1 $$
sha256sum /tmp/sevens | cut -c1-16
cat < <(echo substituted); cat <<< here
ls -l /tmp/nowhere 2>&1
",
        prints: "3 THREE 1099511627776
271
997
nine87
sum 150
through a pipe
caught
06dee587faaf846f
substituted
here
ls: cannot access '/tmp/nowhere': No such file or directory
",
    },
    Case {
        name: "perl",
        script: "perl -e '
my %h = map { $_ => $_ ** 2 } 1 .. 100;
my $s = 0; $s += $_ for values %h; print \"$s\\n\";
my $pid = fork; if (!$pid) { exit 4 } waitpid $pid, 0; print $? >> 8, \"\\n\";
local $SIG{ALRM} = sub { print \"alarm\\n\" }; alarm 1; select undef, undef, undef, 5;
print join(\",\", sort { $b <=> $a } grep { $_ % 7 == 0 } 1 .. 50), \"\\n\";
'
",
        prints: "338350
4
alarm
49,42,35,28,21,14,7
",
    },
    Case {
        name: "python3",
        script: "python3 -c '
import sys, threading, subprocess, hashlib, os, time
print(sys.version_info.major, sum(range(10**6)))
done = []
threads = [threading.Thread(target=lambda n=n: done.append(n * n)) for n in range(20)]
[t.start() for t in threads]; [t.join() for t in threads]
print(sorted(done)[-1], len(done))
said = subprocess.run([\"/bin/echo\", \"from a child\"], capture_output=True, text=True)
print(said.stdout.strip(), said.returncode)
print(hashlib.sha256(b\"x\" * 10**6).hexdigest()[:16])
start = time.monotonic(); threading.Event().wait(0.2)
print(time.monotonic() - start >= 0.2)
pid = os.fork()
if pid == 0: os._exit(6)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
'
",
        prints: "3 499999500000
361 20
from a child 0
1b977e9f84f1b26b
True
6
",
    },
    Case {
        name: "sqlite3",
        script: "sqlite3 /tmp/db \"
pragma journal_mode = wal;
create table t (id integer primary key, n integer, text);
with recursive c(n) as (select 1 union all select n + 1 from c where n < 20000)
insert into t select n, n * 7919 % 1000, hex(n) from c;
create index i on t (n);
select count(*), sum(n), max(id) from t where n between 100 and 199;
delete from t where id % 2;
vacuum;
pragma integrity_check;
\"
sqlite3 /tmp/db 'select count(*), min(id) from t'
",
        prints: "wal
2000|299000|19998
ok
10000|2
",
    },
];

impl Case {
    /// Boots it.
    pub fn check(&self, mut machine: Machine) -> Result<Outcome> {
        let root = match debian::root(machine.arch, NAME, &PACKAGES) {
            Ok(root) => root,
            Err(why) => return skipped(&format!("{why:#}")),
        };
        let mut archive = rootfs::of_folder(&root, u64::MAX)?;
        for folder in ["dev", "proc", "sys", "tmp"] {
            archive.folder_if_absent(folder)?;
        }
        let script = format!(
            "#!/bin/bash\nexport PATH=/bin:/usr/bin\nmount -t proc proc /proc\n{}exit {ENDS}\n",
            self.script
        );
        archive.link("dev/fd", "/proc/self/fd")?;
        archive.replace("init", 0o755, script.as_bytes())?;
        let file = Temporary::file("cpio", &archive.finish()?)?;
        machine.initramfs = Some(file.path().to_owned());
        machine.command_line = "quiet".to_owned();
        let boot = console::boot(&machine, LIMIT)?;
        if boot.text.contains(self.prints) && boot.end == End::Status(ENDS) {
            return Ok(Outcome::Passed);
        }
        Ok(Outcome::Failed(format!(
            "ended with {:?}, not {ENDS}; it should print:\n{}\nit prints:\n{}",
            boot.end, self.prints, boot.text
        )))
    }
}
