// What the debuggers and sanitizers of tools/cli/src/test/programs/foreign look at: threads, a word
// that each writes, and mistakes by name.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

volatile long word;
void *volatile lost;
int count;

int depth(int n) {
    if (n == 0) {
        word = 42;
        return 1;
    }
    return depth(n - 1) + 1;
}

void *work(void *start) {
    return (void *)((long)start + depth(3));
}

void *bump(void *unused) {
    for (int i = 0; i < 1000; i++)
        count++;
    return unused;
}

static long in_threads(void *(*what)(void *), int threads) {
    pthread_t thread[4];
    long sum = 0;
    void *result;
    for (long i = 0; i < threads; i++)
        pthread_create(&thread[i], 0, what, (void *)i);
    for (int i = 0; i < threads; i++) {
        pthread_join(thread[i], &result);
        sum += (long)result;
    }
    return sum;
}

int main(int argc, char **argv) {
    char mistake = argc > 1 ? argv[1][0] : '-';
    char *bytes = malloc(10);
    switch (mistake) {
    case 'o': // overflow
        bytes[8 + argc] = 1;
        break;
    case 'l': // leak
        lost = malloc(100);
        lost = 0;
        break;
    case 'r': // race
        in_threads(bump, 2);
        break;
    case 's': // signed overflow
        printf("%d\n", 0x7fffffff - 1 + argc);
        break;
    case 'n': // null
        *(int *)lost = in_threads(work, 3);
        break;
    default:
        printf("sum %ld\n", in_threads(work, 1));
    }
    free(bytes);
    return 0;
}
