/*
 * A program that locks all its memory, what is to come as well: only what is used takes memory.
 * With an argument it does so when the shared heap is in use already, and what is touched only.
 *
 * Run: tasks=1,2
 * Run: tasks=2 args="later"
 */
#include "api_test.h"

#include <pamix.h>

#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAS_SHADOW 1
#else
#define HAS_SHADOW 0
#endif

enum {
    MOST_KIB = 1 << 20,
    BYTES = 1 << 20
};

/* KiB of memory that are there. */
static long resident(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[200];
    long kib = -1;

    CHECK(file != NULL);
    while (fgets(line, sizeof line, file) != NULL)
        sscanf(line, "VmRSS: %ld", &kib);
    fclose(file);
    return kib;
}

static void lock_memory(int flags)
{
    if (mlockall(MCL_CURRENT | MCL_FUTURE | flags) != 0)
        test_skip("memory cannot be locked");
}

int main(int argc, char *argv[])
{
    static struct job job;
    void *memory;

    (void)argv;
    if (HAS_SHADOW)
        test_skip("the sanitizer's own memory is too much to lock");
    if (argc == 1)
        lock_memory(0);
    job_start(&job, "locked", 1);
    CHECK_OK(PAMIX_Mem_alloc(job.client, BYTES, 0, PAMIX_MEM_LOCAL, &memory));
    memset(memory, 1, BYTES);
    if (argc > 1)
        lock_memory(MCL_ONFAULT);
    job_barrier(&job);
    CHECK(resident() < MOST_KIB);
    CHECK_OK(PAMIX_Mem_free(job.client, memory));
    job_finish(&job);
    return 0;
}
