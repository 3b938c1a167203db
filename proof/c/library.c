/* A shared library for proof/c/dynamic.c: linked to it under one name, opened by dlopen under another. */
#include "library.h"

static __thread int of_thread = 7;
static int constructed;
static int zeros[3 * 4096];
static int one = 1, two = 2;
/* Written once by ld.so, then read-only (RELRO). */
static int *const relocated[] = { &one, &two };

__attribute__((constructor)) static void construct(void)
{
    constructed++;
}

int library_constructed(void)
{
    return constructed;
}

int library_of_thread(int more)
{
    return of_thread += more;
}

int *library_zeros(int *count)
{
    *count = sizeof zeros / sizeof *zeros;
    return zeros;
}

int *const *library_relocated(void)
{
    return relocated;
}
