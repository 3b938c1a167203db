//! The tables of Unixbench and lmbench on a Kunpeng920, of 5 December 2023: 64 kB as base pages
//! (case1), and 64 kB folios of 4 kB pages (case2; case3 with another `PAGE_ALLOC_COSTLY_ORDER`),
//! beside 4 kB folios.
use super::super::runs::{COST, FOLIOS_64K, PLAIN};
use super::super::table::{Cell, Here, Line, Point, Reason, Row, Table, Value};

/// What is measured here for a row, of folios of 64 kB beside those of 4 kB: a figure of the
/// programs `cost` and `latency`.
const MEASURED: [(&str, &str); 8] = [
    ("2p/0K", "cost/pipe_round_trip"),
    ("Pipe", "cost/pipe_round_trip"),
    ("Pipe-based_Context_Switching", "cost/pipe_round_trip"),
    ("Process_Creation", "cost/fork_exit_wait"),
    ("Prot_Fault", "latency=signal"),
    ("System_Call_Overhead", "cost/getpid"),
    ("fork_proc", "cost/fork_exit_wait"),
    ("null_call", "cost/getpid"),
];

/// Rows by what their names begin with, and why they are not measured; the first counts.
const UNMEASURED: [(&str, &str); 4] = [
    (
        "Dhrystone Double-Precision Bcopy Mem_ L1_$ L2_$ Main_mem Rand_mem",
        "What it measures is user mode, whose instructions folios do not change; QEMU has neither caches nor a TLB that could be counted.",
    ),
    (
        "File_ 10K_File Mmap_ Page_Fault null_io stat open_close",
        "It is about files, which are not in large folios here.",
    ),
    ("UDP TCP slct_TCP 100fd_selct", "There is no network."),
    (
        "System_Benchmarks",
        "It is a mean over rows that are not measured.",
    ),
];
const NO_PROGRAM: &str = "No program for this kernel measures it.";

/// Why a call does not gain what it gained there.
const SAME: &str = "It takes the same instructions with both: it touches none of the program's memory that could be in large folios. What was \
                    gained there must be misses of TLB and caches, which QEMU does not have, or chance: the same calls by lmbench (null_call, \
                    Pipe) gained 0.40% and 0.58%.";
const UNIXBENCH_WHY: &[Reason] = &[Reason {
    rows: &["System_Call_Overhead", "Pipe-based_Context_Switching"],
    columns: &[],
    why: SAME,
}];
const PROCESSES_WHY: &[Reason] = &[Reason {
    rows: &["fork_proc"],
    columns: &[],
    why: "The process has some dozens of pages, in areas smaller than 64 kB, so that both have nearly the same folios and take nearly the same instructions.",
}];

pub fn tables() -> Vec<Table> {
    vec![
        table("Unixbench 1core", UNIXBENCH_1CORE, UNIXBENCH_WHY),
        table("Unixbench 128core", UNIXBENCH_128CORE, &[]),
        table(
            "Lmbench Processor_processes",
            PROCESSOR_PROCESSES,
            PROCESSES_WHY,
        ),
        table(
            "Lmbench Context_switching_ctxsw",
            CONTEXT_SWITCHING_CTXSW,
            &[],
        ),
        table("Lmbench Local_latencies", LOCAL_LATENCIES, &[]),
        table("Lmbench File_&_VM_latencies", FILE_VM_LATENCIES, &[]),
        table("Lmbench Local_bandwidths", LOCAL_BANDWIDTHS, &[]),
        table("Lmbench Memory_latencies", MEMORY_LATENCIES, &[]),
    ]
}

/// The lines of a table, as they stand there.
fn table(title: &'static str, lines: &str, reasons: &'static [Reason]) -> Table {
    let lines = lines.lines().filter(|line| !line.is_empty());
    Table {
        title,
        first: "",
        columns: vec!["case1", "case2", "case3"],
        rows: lines.map(|line| row(line, title)).collect(),
        reasons,
    }
}

fn row(line: &str, title: &str) -> Row {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (name, figures) = (words[0], &words[1..]);
    let line = Line::new("Kunpeng920", figures.iter().copied());
    Row::new(name, [line], here(name, number(figures[1]), title))
}

fn here(name: &str, case2: f64, title: &str) -> Here {
    if title.ends_with("128core") {
        return Here::Unmeasured("QEMU's instructions are no throughput.");
    }
    // A bandwidth is of many pages, a latency of one byte.
    let bytes = title.ends_with("bandwidths");
    match MEASURED.iter().find(|(known, _)| *known == name && !bytes) {
        Some((_, op)) => {
            // `cost` has those that the kernel chooses, `latency` chooses itself.
            let point = |words, kb| match op.starts_with(COST) {
                true => Point::new(words, op, 0),
                false => Point::new("", op, kb),
            };
            let gain = Value::Gain(point(PLAIN, 4), point(FOLIOS_64K, 64));
            let cell = Cell::Judged(gain, vec![case2]);
            Here::Cells(vec![Cell::Blank, cell, Cell::Blank])
        }
        None => Here::Unmeasured(why(name)),
    }
}

fn why(name: &str) -> &'static str {
    let begins = |words: &str| words.split(' ').any(|word| name.starts_with(word));
    let found = UNMEASURED.iter().find(|(words, _)| begins(words));
    found.map_or(NO_PROGRAM, |(_, why)| why)
}

/// The figure in `*8.13%*`: stars are what caught the author's eye.
fn number(text: &str) -> f64 {
    let digits = text.trim_matches(['*', '%']);
    digits.parse().expect("a figure of the table")
}

const UNIXBENCH_1CORE: &str = "
Dhrystone_2_using_register_variables        0.28%      0.39%      0.17%
Double-Precision_Whetstone                 -0.01%      0.00%      0.00%
Execl_Throughput                         *21.13%*      2.16%      3.01%
File_Copy_1024_bufsize_2000_maxblocks      -0.51%    *8.33%*    *8.76%*
File_Copy_256_bufsize_500_maxblocks         0.78%   *11.89%*   *10.85%*
File_Copy_4096_bufsize_8000_maxblocks       7.42%      7.27%   *10.66%*
Pipe_Throughput                            -0.24%    *6.82%*    *5.08%*
Pipe-based_Context_Switching                1.38%   *13.49%*    *9.91%*
Process_Creation                         *32.46%*      4.30%    *8.54%*
Shell_Scripts_(1_concurrent)             *31.67%*      1.92%      2.60%
Shell_Scripts_(8_concurrent)             *40.59%*      1.30%    *5.29%*
System_Call_Overhead                        3.92%     *8.13%      2.96%
System_Benchmarks_Index_Score              10.66%      5.39%      5.58%
";
const UNIXBENCH_128CORE: &str = "
Dhrystone_2_using_register_variables        2.07%     -0.03%     -0.11%
Double-Precision_Whetstone                 -0.03%      0.00%      0.00%
Execl_Throughput                         *39.28%*     -4.23%      1.93%
File_Copy_1024_bufsize_2000_maxblocks       5.46%      1.30%      4.20%
File_Copy_256_bufsize_500_maxblocks        -8.89%     *6.56%    *5.02%*
File_Copy_4096_bufsize_8000_maxblocks       3.43%   *-5.46%*      0.56%
Pipe_Throughput                             3.80%     *7.69%    *7.80%*
Pipe-based_Context_Switching              *7.62%*      0.95%      4.69%
Process_Creation                         *28.11%*     -2.79%      2.40%
Shell_Scripts_(1_concurrent)             *39.68%*      1.86%    *5.30%*
Shell_Scripts_(8_concurrent)             *41.35%*      2.49%    *7.16%*
System_Call_Overhead                       -1.55%     -0.04%    *8.23%*
System_Benchmarks_Index_Score              12.08%      0.63%      3.88%
";
const PROCESSOR_PROCESSES: &str = "
null_call        1.76%      0.40%      0.65%
null_io         -0.76%     -0.38%     -0.23%
stat         *-16.09%*  *-12.49%*      4.22%
open_close      -2.69%      4.51%      3.21%
slct_TCP        -0.56%      0.00%     -0.44%
sig_inst        -1.54%      0.73%      0.70%
sig_hndl        -2.85%      0.01%      1.85%
fork_proc     *23.31%*      8.77%     -5.42%
exec_proc     *13.22%*     -0.30%      1.09%
sh_proc       *14.04%*     -0.10%      1.09%
";
const CONTEXT_SWITCHING_CTXSW: &str = "
2p/0K       -12.16%     -5.29%     -1.86%
2p/16K      -11.26%     -3.71%     -4.53%
2p/64K       -2.60%      3.84%     -1.98%
8p/16K       -7.56%     -1.21%     -0.88%
8p/64K        5.10%      4.88%      1.19%
16p/16K      -5.81%     -2.44%     -3.84%
16p/64K       4.29%     -1.94%     -2.50%
";
const LOCAL_LATENCIES: &str = "
Pipe          -9.23%      0.58%     -4.34%
AF_UNIX       -5.34%     -1.76%      3.03%
UDP           -6.70%     -5.96%     -9.81%
TCP           -7.95%     -7.58%     -5.63%
TCP_conn    -213.99%   -227.78%   -659.67%
";
const FILE_VM_LATENCIES: &str = "
10K_File_Create       2.60%     -0.52%      2.66%
10K_File_Delete      -2.91%     -5.20%     -2.11%
10K_File_Create      10.23%      1.18%      0.12%
10K_File_Delete     -17.76%     -2.97%     -1.49%
Mmap_Latency       *63.05%*      2.57%     -0.96%
Prot_Fault           10.41%     -3.21%  *-19.11%*
Page_Fault       *-132.01%*      2.35%     -0.79%
100fd_selct          -1.20%      0.10%      0.31%
";
const LOCAL_BANDWIDTHS: &str = "
Pipe            265.22%     15.44%     11.33%
AF_UNIX          13.41%     -2.66%      2.63%
TCP              -1.30%     25.90%      2.48%
File_reread      14.79%     31.52%    -14.16%
Mmap_reread      27.47%     49.00%     -0.11%
Bcopy(libc)       2.58%      2.45%      2.46%
Bcopy(hand)      25.78%     22.56%     22.68%
Mem_read         38.26%     36.80%     36.49%
Mem_write        10.93%      3.44%      3.12%
";
const MEMORY_LATENCIES: &str = "
L1_$           0.02%      0.00%     -0.03%
L2_$          -1.56%     -2.65%     -1.25%
Main_mem      50.82%     32.51%     33.47%
Rand_mem      15.29%     -8.79%     -8.80%
";
