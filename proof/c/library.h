/* What proof/c/library.c exports. */

/* How often its constructor ran. */
int library_constructed(void);
/* Adds to a variable that each thread has for itself and starts at 7; the sum. */
int library_of_thread(int more);
/* An array in .bss. */
int *library_zeros(int *count);
/* Two pointers, to 1 and 2, in memory that is read-only once ld.so has written it. */
int *const *library_relocated(void);
