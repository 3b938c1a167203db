/* How the programs here check: the first thing that fails is named, and the program ends with 1. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#define CHECK(what) \
    do { \
        if (!(what)) { \
            printf("line %d: %s fails, errno %d\n", __LINE__, #what, errno); \
            fflush(stdout); \
            _exit(1); \
        } \
    } while (0)
