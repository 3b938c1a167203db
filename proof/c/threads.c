/* A program with POSIX threads like any other: mutexes, conditions, barriers, read-write locks, semaphores, thread-local
 * data, cancellation, an owner that dies, and threads by the thousand. It prints the same on Linux and on Quire, with glibc
 * and with musl; ./run.sh test compares. Exits with 6, or with 1 and a line number when something is wrong. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "check.h"

enum { THREADS = 8, TURNS = 2000, THOUSANDS = 2000 };

typedef void *body(void *);

static void run(body *what, int threads)
{
    pthread_t all[THREADS];
    for (intptr_t n = 0; n < threads; n++)
        CHECK(!pthread_create(&all[n], NULL, what, (void *)n));
    for (int n = 0; n < threads; n++)
        CHECK(!pthread_join(all[n], NULL));
}

/* A counter under a mutex, one under a spin lock. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_spinlock_t spin;
static long counted, spun;

static void *count(void *unused)
{
    for (int n = 0; n < TURNS; n++) {
        CHECK(!pthread_mutex_lock(&mutex));
        counted++;
        CHECK(!pthread_mutex_unlock(&mutex));
        if (n % 16 == 0) {
            CHECK(!pthread_spin_lock(&spin));
            spun++;
            CHECK(!pthread_spin_unlock(&spin));
        }
    }
    return unused;
}

/* glibc before 2.41 loses a signal of a condition once in some ten thousand waits of many threads (its bug 25847). Such a
 * wait ends by its time, and a run may have so many of them: musl loses none. */
#ifdef __GLIBC__
enum { LOST = 3 };
#else
enum { LOST = 0 };
#endif
static int lost;
static long turns;

static struct timespec later(long nanoseconds)
{
    struct timespec time;
    CHECK(!clock_gettime(CLOCK_REALTIME, &time));
    time.tv_nsec += nanoseconds;
    time.tv_sec += time.tv_nsec / 1000000000;
    time.tv_nsec %= 1000000000;
    return time;
}

/* A queue of one place: producers and consumers wait for each other by conditions. */
static pthread_cond_t is_full = PTHREAD_COND_INITIALIZER, is_empty = PTHREAD_COND_INITIALIZER;
static long place, sum;

static int may_go(int produces)
{
    return produces ? place == 0 : place != 0;
}

static void *produce_or_consume(void *number)
{
    int produces = (intptr_t)number % 2;
    for (long n = 1; n <= TURNS; n++) {
        CHECK(!pthread_mutex_lock(&mutex));
        while (!may_go(produces)) {
            struct timespec end = later(5000000000);
            long before = turns;
            int how = pthread_cond_timedwait(produces ? &is_empty : &is_full, &mutex, &end);
            CHECK(!how || how == ETIMEDOUT);
            /* Nobody had a turn meanwhile. */
            lost += how == ETIMEDOUT && may_go(produces) && turns == before;
        }
        if (!produces)
            sum += place;
        place = produces ? n : 0;
        turns++;
        CHECK(!pthread_cond_signal(produces ? &is_full : &is_empty));
        CHECK(!pthread_mutex_unlock(&mutex));
    }
    return NULL;
}

/* Rounds that all begin together; one thread of each round is its serial one. */
static pthread_barrier_t barrier;
static int serial, arrived;

static void *meet(void *unused)
{
    for (int n = 1; n <= 200; n++) {
        __atomic_fetch_add(&arrived, 1, __ATOMIC_SEQ_CST);
        int how = pthread_barrier_wait(&barrier);
        CHECK(!how || how == PTHREAD_BARRIER_SERIAL_THREAD);
        CHECK(__atomic_load_n(&arrived, __ATOMIC_SEQ_CST) >= n * THREADS);
        if (how)
            __atomic_fetch_add(&serial, 1, __ATOMIC_SEQ_CST);
    }
    return unused;
}

/* Two words that are equal whenever they are read. */
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static long pair[2];

static void *read_or_write(void *number)
{
    for (int n = 0; n < TURNS; n++) {
        if ((intptr_t)number == 0 && n % 4 == 0) {
            CHECK(!pthread_rwlock_wrlock(&rwlock));
            pair[0]++;
            pair[1]++;
        } else {
            CHECK(!pthread_rwlock_rdlock(&rwlock));
            CHECK(pair[0] == pair[1]);
        }
        CHECK(!pthread_rwlock_unlock(&rwlock));
    }
    return NULL;
}

/* Data of each thread's own, once by the compiler and once by a key with a destructor. */
static __thread long own = 42;
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int destroyed, made;

static void destroy(void *value)
{
    CHECK((intptr_t)value > 0);
    __atomic_fetch_add(&destroyed, 1, __ATOMIC_SEQ_CST);
}

static void make_key(void)
{
    made++;
    CHECK(!pthread_key_create(&key, destroy));
}

static void *keep(void *number)
{
    CHECK(own == 42);
    CHECK(!pthread_once(&once, make_key));
    CHECK(!pthread_setspecific(key, (void *)((intptr_t)number + 1)));
    for (int n = 0; n < 100; n++) {
        own += (intptr_t)number;
        sched_yield();
    }
    CHECK(own == 42 + 100 * (intptr_t)number);
    CHECK(pthread_getspecific(key) == (void *)((intptr_t)number + 1));
    return NULL;
}

/* Semaphores between threads. */
static sem_t there, back;

static void *answer(void *unused)
{
    for (int n = 0; n < TURNS; n++) {
        while (sem_wait(&there))
            CHECK(errno == EINTR);
        CHECK(!sem_post(&back));
    }
    return unused;
}

/* Ends in the middle of a wait, when it is cancelled. */
static void *wait_for_ever(void *unused)
{
    pthread_mutex_lock(&mutex);
    pthread_cleanup_push((void (*)(void *))pthread_mutex_unlock, &mutex);
    for (;;)
        pthread_cond_wait(&is_full, &mutex);
    pthread_cleanup_pop(0);
    return unused;
}

static void *nothing(void *number)
{
    return number;
}

static void *take_and_end(void *robust)
{
    CHECK(!pthread_mutex_lock(robust));
    return NULL;
}

/* A mutex in shared memory whose owner ends: a thread, then a process. */
static void owners_that_die(void)
{
    pthread_mutex_t *robust = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(robust != MAP_FAILED);
    pthread_mutexattr_t attributes;
    CHECK(!pthread_mutexattr_init(&attributes));
    CHECK(!pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST));
    CHECK(!pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED));
    CHECK(!pthread_mutex_init(robust, &attributes));
    for (int turn = 0; turn < 2; turn++) {
        if (turn == 0) {
            pthread_t thread;
            CHECK(!pthread_create(&thread, NULL, take_and_end, robust));
            CHECK(!pthread_join(thread, NULL));
        } else {
            int status;
            pid_t child = fork();
            if (child == 0) {
                take_and_end(robust);
                _exit(0);
            }
            CHECK(waitpid(child, &status, 0) == child && status == 0);
        }
        CHECK(pthread_mutex_lock(robust) == EOWNERDEAD);
        CHECK(!pthread_mutex_consistent(robust));
        CHECK(!pthread_mutex_unlock(robust));
        printf("owner %d died, its mutex lives\n", turn);
    }
}

int main(void)
{
    CHECK(!pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE));
    run(count, THREADS);
    printf("counted %ld and %ld\n", counted, spun);
    run(produce_or_consume, THREADS);
    CHECK(lost <= LOST);
    printf("sum %ld\n", sum);
    CHECK(!pthread_barrier_init(&barrier, NULL, THREADS));
    run(meet, THREADS);
    printf("rounds %d, serial threads %d\n", arrived / THREADS, serial);
    run(read_or_write, THREADS);
    printf("written %ld %ld\n", pair[0], pair[1]);
    run(keep, THREADS);
    printf("keys made %d, destroyed %d\n", made, destroyed);

    pthread_t thread;
    CHECK(!sem_init(&there, 0, 0) && !sem_init(&back, 0, 0));
    CHECK(!pthread_create(&thread, NULL, answer, NULL));
    for (int n = 0; n < TURNS; n++) {
        CHECK(!sem_post(&there));
        while (sem_wait(&back))
            CHECK(errno == EINTR);
    }
    CHECK(!pthread_join(thread, NULL));
    printf("answers %d\n", TURNS);

    void *result;
    CHECK(!pthread_create(&thread, NULL, wait_for_ever, NULL));
    CHECK(!pthread_cancel(thread));
    CHECK(!pthread_join(thread, &result) && result == PTHREAD_CANCELED);
    struct timespec soon = later(5000000);
    CHECK(!pthread_mutex_lock(&mutex));
    CHECK(pthread_cond_timedwait(&is_full, &mutex, &soon) == ETIMEDOUT);
    CHECK(!pthread_mutex_unlock(&mutex));
    printf("cancelled, and timed out\n");

    owners_that_die();

    long joined = 0;
    for (intptr_t n = 0; n < THOUSANDS; n++) {
        CHECK(!pthread_create(&thread, NULL, nothing, (void *)n));
        CHECK(!pthread_join(thread, &result));
        joined += (intptr_t)result;
    }
    printf("joined %ld\n", joined);
    fflush(stdout);
    return 6;
}
