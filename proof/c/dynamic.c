/* A dynamic program: what the kernel says to ld.so, how ld.so maps libraries, dlopen, and thread-local data in the program,
 * in a library and in one that is opened later. It prints the same on Linux and on Quire, with glibc and with musl,
 * position-independent or not; ./run.sh test compares. Exits with 7, or with 1 and a line number when something is wrong. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>
#include "check.h"
#include "library.h"

extern void _start(void);

static const ElfW(Phdr) *program_headers;
static int program_header_count, objects;

/* The first object is the program itself. */
static int each_object(struct dl_phdr_info *info, size_t size, void *unused)
{
    if (objects++ == 0) {
        program_headers = info->dlpi_phdr;
        program_header_count = info->dlpi_phnum;
    }
    return 0;
}

/* What /proc/self/maps says about `address`: its rights, and the last part of its path. */
static char rights[5], file[256];

static void look_up(const void *address)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512], path[256];
    unsigned long start, end, wanted = (unsigned long)address;
    CHECK(maps);
    for (;;) {
        CHECK(fgets(line, sizeof line, maps));
        *path = 0;
        CHECK(sscanf(line, "%lx-%lx %4s %*s %*s %*s %255s", &start, &end, rights, path) >= 3);
        if (start <= wanted && wanted < end)
            break;
    }
    fclose(maps);
    char *slash = strrchr(path, '/');
    strcpy(file, slash ? slash + 1 : path);
}

static void auxiliary_vector(void)
{
    unsigned long base = getauxval(AT_BASE);
    CHECK(base && base % 4096 == 0);
    CHECK(!memcmp((void *)base, ELFMAG, SELFMAG));
    look_up((void *)base);
    CHECK(!strncmp(file, "ld-", 3) || !strcmp(file, "libc.so"));
    CHECK(getauxval(AT_ENTRY) == (unsigned long)_start);
    dl_iterate_phdr(each_object, NULL);
    CHECK(getauxval(AT_PHDR) == (unsigned long)program_headers);
    CHECK(getauxval(AT_PHNUM) == (unsigned long)program_header_count);
    CHECK(getauxval(AT_PHENT) == sizeof(ElfW(Phdr)));
    CHECK(objects >= 3);
    printf("the auxiliary vector is about the program, AT_BASE about its interpreter\n");
}

static sigjmp_buf back;

static void refused(int signal)
{
    siglongjmp(back, 1);
}

static void segments(int *(*get_zeros)(int *), int *const *(*get_relocated)(void))
{
    int count, *zeros = get_zeros(&count);
    int *const *relocated = get_relocated();
    for (int i = 0; i < count; i++)
        CHECK(zeros[i] == 0);
    memset(zeros, 0x55, count * sizeof *zeros);
    CHECK(*relocated[0] == 1 && *relocated[1] == 2);
    look_up(relocated);
    CHECK(!strcmp(rights, "r--p") && !strncmp(file, "lib", 3));
    if (!sigsetjmp(back, 1)) {
        *(int **)relocated = NULL;
        CHECK(!"RELRO can be written");
    }
    printf("a library's zeros are zeros, its relocated data is read-only\n");
}

static __thread int of_thread = 3;
static int (*opened_of_thread)(int);

static void *thread(void *number)
{
    int n = (int)(long)number;
    CHECK(of_thread == 3 && library_of_thread(n) == 7 + n && opened_of_thread(2 * n) == 7 + 2 * n);
    of_thread += n;
    return (void *)(long)(of_thread + library_of_thread(0) + opened_of_thread(0));
}

static void threads(void)
{
    pthread_t all[8];
    long sum = 0;
    of_thread = 100;
    library_of_thread(100);
    for (long n = 0; n < 8; n++)
        CHECK(!pthread_create(&all[n], NULL, thread, (void *)n));
    for (int n = 0; n < 8; n++) {
        void *result;
        CHECK(!pthread_join(all[n], &result));
        sum += (long)result;
    }
    printf("eight threads have data of their own: %ld\n", sum);
}

static void open_library(void)
{
    int *(*zeros)(int *);
    int *const *(*relocated)(void);
    int (*constructed)(void);
    CHECK(!dlopen("libnowhere.so", RTLD_NOW));
    const char *error = dlerror();
    CHECK(error && strstr(error, "libnowhere.so"));
    void *library = dlopen("libopened.so", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        printf("%s\n", dlerror());
    CHECK(library);
    CHECK((zeros = (int *(*)(int *))dlsym(library, "library_zeros")) && zeros != library_zeros);
    CHECK((relocated = (int *const *(*)(void))dlsym(library, "library_relocated")));
    CHECK((constructed = (int (*)(void))dlsym(library, "library_constructed")));
    CHECK((opened_of_thread = (int (*)(int))dlsym(library, "library_of_thread")));
    CHECK(!dlsym(library, "library_nothing"));
    look_up((void *)constructed);
    CHECK(!strcmp(rights, "r-xp") && !strcmp(file, "libopened.so"));
    CHECK(constructed() == 1);
    printf("a library that is opened has its constructor run\n");
    segments(zeros, relocated);
    threads();
    CHECK(!dlclose(library));
}

static void child(char *self)
{
    int status;
    fflush(stdout);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        setenv("LD_BIND_NOW", "1", 1);
        execl(self, self, "child", (char *)NULL);
        _exit(1);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 9);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        printf("the child is a dynamic program, too: %s\n", argv[1]);
        return library_of_thread(2);
    }
    CHECK(getpid() != 1 || !mount("proc", "/proc", "proc", 0, NULL));
    CHECK(signal(SIGSEGV, refused) != SIG_ERR);
    auxiliary_vector();
    CHECK(library_constructed() == 1);
    segments(library_zeros, library_relocated);
    open_library();
    child("/proc/self/exe");
    return 7;
}
