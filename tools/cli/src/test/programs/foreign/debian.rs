//! Debian's own programs, dynamic as they are packed: a shell script as /init starts them.
//!
//! Redis is asked to save while two clients write: each of their transactions adds one to a count
//! and to the sum of all, so the counts of a snapshot of one moment add up.
use crate::test::programs::foreign::dynamic;
use crate::test::programs::skipped;
use anyhow::Result;
use std::path::PathBuf;
use std::time::Duration;
use tools::host::arch::Arch;
use tools::host::debian;
use tools::host::outcome::Outcome;
use tools::host::workspace::Temporary;
use tools::machine::console;
use tools::machine::guest::End;
use tools::machine::qemu::Machine;
use tools::machine::rootfs;

/// Emulated, python3 takes seconds to start.
const LIMIT: Duration = Duration::from_secs(300);

/// Packages, and the name under which they are kept.
struct Packages {
    name: &'static str,
    names: &'static [&'static str],
}

const DEBIAN: Packages = Packages {
    name: "debian",
    names: &[
        "base-files",
        "bash",
        "coreutils",
        "mount",
        "perl-base",
        "python3-minimal",
        "sed",
        "sqlite3",
    ],
};
const REDIS: Packages = Packages {
    name: "redis",
    names: &[
        "base-files",
        "bash",
        "coreutils",
        "mount",
        "redis-server",
        "redis-tools",
    ],
};

const DEBUGGERS: Packages = Packages {
    name: "debuggers",
    names: &[
        "base-files",
        "bash",
        "coreutils",
        "gdb",
        "grep",
        "libasan8",
        "libc6-dbg",
        "liblsan0",
        "libtsan2",
        "libubsan1",
        "mount",
        "numactl",
        "sed",
        "strace",
        "util-linux",
        "valgrind",
    ],
};
/// How `proof/c/debugged.c` is compiled for them: the programs' names and flags.
const DEBUGGED: [(&str, &[&str]); 5] = [
    ("debugged", &[]),
    ("address", &["-fsanitize=address"]),
    ("leak", &["-fsanitize=leak"]),
    ("thread", &["-fsanitize=thread"]),
    ("undefined", &["-fsanitize=undefined"]),
];

/// A script for bash, and what it must print.
pub struct Case {
    /// As a part of the test's name.
    pub name: &'static str,
    packages: Packages,
    /// Programs that are compiled from `proof/c/debugged.c`.
    debugged: &'static [(&'static str, &'static [&'static str])],
    script: &'static str,
    prints: &'static str,
}

/// The last line of each script ends with this status.
const ENDS: u8 = 5;

/// The cases.
pub const CASES: [Case; 6] = [
    Case {
        name: "debian_bash",
        packages: DEBIAN,
        debugged: &[],
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
        name: "debian_perl",
        packages: DEBIAN,
        debugged: &[],
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
        name: "debian_python3",
        packages: DEBIAN,
        debugged: &[],
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
        name: "debian_sqlite3",
        packages: DEBIAN,
        debugged: &[],
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
    Case {
        name: "debuggers",
        packages: DEBUGGERS,
        debugged: &DEBUGGED,
        script: "cd /tmp
mount -t sysfs sys /sys
export SHELL=/bin/bash
gdb() { /usr/bin/gdb -nx -batch -ex 'set debuginfod enabled off' \"$@\" 2>&1; }
lscpu | grep -c 'NUMA node0'
numactl --hardware | head -1
strace -f -o calls bash -c 'echo one | cat; exit 3'; echo \"strace $?\"
grep -c '+++ exited with' calls
sleep 2 & strace -o attached -p $! 2>&1 | grep -c attached; wait
gdb -ex 'break depth if n == 0' -ex run -ex bt -ex 'watch word' -ex continue -ex 'info threads' \\
    -ex delete -ex continue /debugged >session
grep -c '^#.* depth (n=' session; grep -E '^(New value|Hardware w|sum)' session
ulimit -c unlimited; (/debugged n; true) 2>/dev/null; ls core
gdb -ex 'print word' -ex 'print mistake' -ex 'info threads' /debugged core | grep -E '^(.[0-9] =|Program)'
sleep 99 & gdb -p $! -ex detach | grep -c detached; kill $!; wait $!; echo \"waited $?\"
for each in address:o address:l address:x leak:l leak:x thread:r thread:x undefined:s undefined:x; do
    /${each%:*} ${each#*:} >said 2>&1; echo \"$each $?\"
    sed -nE 's/.*(SUMMARY: [A-Za-z]*: [a-z0-9-]*).*/\\1/p; s/.*(runtime error: [a-z ]*).*/\\1/p' said
done
for each in o l x; do
    valgrind.bin -q --leak-check=full --error-exitcode=9 /debugged $each >said 2>&1; echo \"valgrind:$each $?\"
    sed -nE 's/.* (Invalid write of size 1|100 bytes in 1 blocks are [a-z]* lost).*/\\1/p' said
done
",
        prints: "1
available: 1 nodes (0)
one
strace 3
3
1
4
Hardware watchpoint 2: word
New value = 42
sum 4
core
Program terminated with signal SIGSEGV, Segmentation fault.
$1 = 42
$2 = 110 'n'
1
waited 143
address:o 1
SUMMARY: AddressSanitizer: heap-buffer-overflow
address:l 1
SUMMARY: AddressSanitizer: 100
address:x 0
leak:l 23
SUMMARY: LeakSanitizer: 100
leak:x 0
thread:r 66
SUMMARY: ThreadSanitizer: data
thread:x 0
undefined:s 0
runtime error: signed integer overflow
undefined:x 0
valgrind:o 9
Invalid write of size 1
valgrind:l 9
100 bytes in 1 blocks are definitely lost
valgrind:x 0
",
    },
    Case {
        name: "redis",
        packages: REDIS,
        debugged: &[],
        script: "cd /tmp
start() {
    redis-server --port 0 --unixsocket /tmp/$1 --save '' --dbfilename $2 --enable-debug-command yes >/tmp/$1.log 2>&1 &
    until [[ $(redis-cli -s /tmp/$1 ping 2>&1) == PONG ]]; do kill -0 $! || cat /tmp/$1.log; done
}
ask() { redis-cli -s /tmp/$1 \"${@:2}\"; }
saved() { while [[ $(ask one info persistence) == *bgsave_in_progress:1* ]]; do :; done; }
start one one.rdb
add=\"redis.call('incr', KEYS[1]) redis.call('incr', KEYS[2]) redis.call('append', KEYS[1]..'x', 'some bytes')\"
redis-benchmark -s /tmp/one -q -c 2 -n 8000 -r 1000 EVAL \"$add\" 2 n:__rand_int__ all >/tmp/writers &
writers=$!
until [[ $(ask one get all) -gt 500 ]]; do :; done
before=$(ask one get all)
ask one bgsave
saved
after=$(ask one get all)
cp one.rdb two.rdb
start two two.rdb
all=$(ask two get all)
sum=\"local s = 0 for _, k in ipairs(redis.call('keys', 'n:*')) do if k:sub(-1) ~= 'x' then s = s + redis.call('get', k) end end return s\"
[[ $(ask two eval \"$sum\" 0) == $all ]] && echo \"each count of the snapshot is of one moment\"
((before <= all && all <= after && after < 8000)) && echo \"the moment was while the clients wrote\"
wait $writers
echo $(ask one get all)
ask one bgsave
saved
start three one.rdb
[[ $(ask one debug digest) == $(ask three debug digest) ]] && echo \"what is read back is the same\"
for each in one two three; do ask $each shutdown nosave; done
wait
echo ended
",
        prints: "Background saving started
each count of the snapshot is of one moment
the moment was while the clients wrote
8000
Background saving started
what is read back is the same
ended
",
    },
];

impl Case {
    /// The folder with its packages, which are downloaded if they are not there.
    pub fn bring(&self, arch: Arch) -> Result<PathBuf> {
        debian::root(arch, self.packages.name, self.packages.names)
    }

    /// Boots it.
    pub fn check(&self, mut machine: Machine) -> Result<Outcome> {
        let root = match self.bring(machine.arch) {
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
        for (name, flags) in self.debugged {
            match dynamic::debugged(machine.arch, flags) {
                Ok(program) => archive.replace(name, 0o755, &program)?,
                Err(why) => return skipped(&format!("{why:#}")),
            }
        }
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
