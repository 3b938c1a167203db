/* A program like any other: fork, mmap, mprotect, pipes, signals, clocks. It prints the same on Linux and on Quire, with
 * glibc and with musl; ./run.sh test compares. Exits with 5, or with 1 and a line number when something is wrong. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "check.h"

enum { PAGE = 4096, PAGES = 64 };

static void *volatile nowhere = (void *)16;
static sigjmp_buf back;
static void *volatile fault_address;
static volatile int fault_code, children, alarms;

static void on_fault(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    fault_address = info->si_addr;
    fault_code = info->si_code;
    siglongjmp(back, 1);
}

static void on_child(int number) { (void)number; children++; }
static void on_alarm(int number) { (void)number; alarms++; }

static void handle(int number, void (*plain)(int), void (*full)(int, siginfo_t *, void *), int flags)
{
    struct sigaction action = { .sa_flags = flags | (full ? SA_SIGINFO : 0) };
    if (full)
        action.sa_sigaction = full;
    else
        action.sa_handler = plain;
    CHECK(sigaction(number, &action, NULL) == 0);
}

static int wait_status(pid_t child)
{
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

static void memory(void)
{
    unsigned char *area = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(area != MAP_FAILED && (uintptr_t)area % PAGE == 0);
    unsigned sum = 0;
    for (int i = 0; i < PAGES * PAGE; i++)
        sum += area[i];
    for (int i = 0; i < PAGES; i++)
        area[i * PAGE] = i;
    for (int i = 0; i < PAGES; i++)
        sum += area[i * PAGE];
    printf("memory: zero at first, then the sum is %u\n", sum);

    CHECK(mprotect(area + PAGE, PAGE, PROT_READ) == 0);
    if (sigsetjmp(back, 1) == 0) {
        area[PAGE] = 1;
        printf("memory: a write to a read-only page went through\n");
    } else {
        printf("memory: read-only page: offset %ld, code %d\n", (long)((unsigned char *)fault_address - area), fault_code);
    }
    CHECK(mprotect(area + PAGE, PAGE, PROT_READ | PROT_WRITE) == 0);
    area[PAGE] = 77;

    CHECK(munmap(area + 2 * PAGE, PAGE) == 0);
    if (sigsetjmp(back, 1) == 0) {
        printf("memory: an unmapped page reads %d\n", *(volatile unsigned char *)(area + 2 * PAGE));
    } else {
        printf("memory: unmapped page: offset %ld, code %d\n", (long)((unsigned char *)fault_address - area), fault_code);
    }
    unsigned char *moved = mremap(area + 3 * PAGE, PAGE, 4 * PAGE, MREMAP_MAYMOVE);
    CHECK(moved != MAP_FAILED);
    printf("memory: after mprotect %d, after mremap %d and %d\n", area[PAGE], moved[0], moved[3 * PAGE]);
    CHECK(madvise(area + 4 * PAGE, PAGE, MADV_DONTNEED) == 0);
    printf("memory: after MADV_DONTNEED %d, its neighbour %d\n", area[4 * PAGE], area[5 * PAGE]);
    char *heap = malloc(3 << 20);
    CHECK(heap);
    memset(heap, 'x', 3 << 20);
    free(heap);
    CHECK(mmap((void *)0x1000, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, 77, 1) == MAP_FAILED);
    printf("memory: an offset that is not of pages: %s\n", strerror(errno));
}

static void processes(void)
{
    int *shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int *own = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED && own != MAP_FAILED);
    *shared = *own = 1;
    fflush(stdout);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        *shared = *own = 2;
        _exit(getppid() > 0 ? 23 : 1);
    }
    int status = wait_status(child);
    printf("processes: child's status %d; shared %d, private %d\n", WEXITSTATUS(status), *shared, *own);

    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        *(volatile int *)8 = 1;
        _exit(0);
    }
    status = wait_status(child);
    printf("processes: a child ended by signal %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : 0);

    for (int i = 0; i < 20; i++) {
        child = fork();
        CHECK(child >= 0);
        if (child == 0)
            _exit(i);
        CHECK(WEXITSTATUS(wait_status(child)) == i);
    }
    printf("processes: SIGCHLD came %s\n", children ? "" : "never");
    errno = 0;
    CHECK(wait(NULL) == -1);
    printf("processes: no more children: %s\n", strerror(errno));
}

static void pipes(void)
{
    int there[2], back_again[2];
    CHECK(pipe(there) == 0 && pipe(back_again) == 0);
    fflush(stdout);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        close(there[1]);
        close(back_again[0]);
        char buffer[1000];
        long total = 0;
        for (ssize_t n; (n = read(there[0], buffer, sizeof buffer)) > 0;)
            total += n;
        CHECK(write(back_again[1], &total, sizeof total) == sizeof total);
        _exit(0);
    }
    close(there[0]);
    close(back_again[1]);
    static char block[200000];
    struct iovec parts[2] = { { block, 150000 }, { block + 150000, 50000 } };
    CHECK(writev(there[1], parts, 2) == 200000);
    close(there[1]);
    long total = 0;
    struct pollfd wanted = { .fd = back_again[0], .events = POLLIN };
    CHECK(poll(&wanted, 1, 10000) == 1 && (wanted.revents & POLLIN));
    CHECK(read(back_again[0], &total, sizeof total) == sizeof total);
    CHECK(read(back_again[0], &total, sizeof total) == 0);
    wait_status(child);
    printf("pipes: %ld bytes went through\n", total);
    close(back_again[0]);

    CHECK(pipe(there) == 0);
    close(there[0]);
    signal(SIGPIPE, SIG_IGN);
    CHECK(write(there[1], "x", 1) == -1);
    printf("pipes: nobody reads: %s\n", strerror(errno));
    CHECK(write(there[1], nowhere, 1) == -1);
    close(there[1]);
    CHECK(pipe(there) == 0);
    CHECK(write(there[1], nowhere, 1) == -1);
    printf("pipes: from nowhere: %s\n", strerror(errno));
}

static void signals(void)
{
    sigset_t one, before, pending;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    handle(SIGUSR1, on_alarm, NULL, 0);
    CHECK(sigprocmask(SIG_BLOCK, &one, &before) == 0);
    CHECK(raise(SIGUSR1) == 0 && sigpending(&pending) == 0);
    printf("signals: blocked: pending %d, seen %d\n", sigismember(&pending, SIGUSR1), alarms);
    CHECK(sigprocmask(SIG_SETMASK, &before, NULL) == 0);
    printf("signals: unblocked: seen %d\n", alarms);

    stack_t other = { .ss_sp = malloc(1 << 16), .ss_size = 1 << 16 };
    CHECK(other.ss_sp && sigaltstack(&other, NULL) == 0);
    handle(SIGSEGV, NULL, on_fault, SA_ONSTACK);
    if (sigsetjmp(back, 1) == 0)
        *(volatile char *)0x123 = 1;
    else
        printf("signals: on the other stack: address %#lx, code %d\n", (unsigned long)fault_address, fault_code);

    /* A slow call that a signal ends; the timer repeats in case the first comes before the call. */
    int ends[2];
    char byte;
    CHECK(pipe(ends) == 0);
    handle(SIGALRM, on_alarm, NULL, 0);
    struct itimerval soon = { .it_value = { 0, 20000 }, .it_interval = { 0, 20000 } };
    setitimer(ITIMER_REAL, &soon, NULL);
    CHECK(read(ends[0], &byte, 1) == -1);
    printf("signals: a read that is interrupted: %s, seen %s\n", strerror(errno), alarms > 1 ? "yes" : "no");
    setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL);
}

static void clocks(void)
{
    struct timespec a, b, pause = { 0, 30000000 };
    CHECK(clock_gettime(CLOCK_MONOTONIC, &a) == 0);
    CHECK(nanosleep(&pause, NULL) == 0);
    CHECK(clock_gettime(CLOCK_MONOTONIC, &b) == 0);
    long long slept = (b.tv_sec - a.tv_sec) * 1000000000LL + b.tv_nsec - a.tv_nsec;
    printf("clocks: slept at least 30 ms: %s, less than 10 s: %s\n", slept >= 30000000 ? "yes" : "no",
           slept < 10000000000LL ? "yes" : "no");
    CHECK(clock_gettime(CLOCK_REALTIME, &a) == 0);
    printf("clocks: after 2020: %s\n", a.tv_sec > 1577836800 ? "yes" : "no");
    struct rusage used;
    CHECK(getrusage(RUSAGE_SELF, &used) == 0);
    printf("clocks: page faults were counted: %s\n", used.ru_minflt > PAGES ? "yes" : "no");
}

int main(int argc, char **argv, char **envp)
{
    handle(SIGSEGV, NULL, on_fault, 0);
    handle(SIGCHLD, on_child, NULL, SA_RESTART);
    printf("arguments: %s, environment: %s, floats: %.3f\n", argc > 0 && argv[0] ? "yes" : "no", envp ? "yes" : "no",
           argc * 1.5 + 0.125);
    memory();
    processes();
    pipes();
    signals();
    clocks();
    return 5;
}
