/*
 * Where the kernel has no membarrier a sleeper may miss who rings, so a thread of asynchronous
 * progress looks for itself, every millisecond. Elsewhere it sleeps.
 *
 * Run: tasks=1
 */
#include "async.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>

enum {
    SERVED = 1,
    CONTEXTS,
    SLEEPS = 100
};

static struct job job;
static size_t thread_id;

static pami_result_t note_thread(pami_context_t context, void *cookie)
{
    (void)context, (void)cookie;
    __atomic_store_n(&thread_id, (size_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
    return PAMI_SUCCESS;
}

/* How often the thread has gone to sleep. */
static long sleeps(void)
{
    static const char label[] = "voluntary_ctxt_switches:";
    char path[64], line[256];
    long count = -1;
    FILE *file;

    snprintf(path, sizeof path, "/proc/self/task/%zu/status", load(&thread_id));
    file = fopen(path, "r");
    CHECK(file != NULL);
    while (count < 0 && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, label, sizeof label - 1) == 0)
            count = strtol(line + sizeof label - 1, NULL, 10);
    fclose(file);
    return count;
}

int main(void)
{
    static pami_work_t work;
    bool blind = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) != 0;
    double begin;
    long before;

    job_start(&job, "async_blind", CONTEXTS);
    job.driven = 1;
    CHECK_OK(PAMIX_Context_async_enable(&job.context[SERVED], 1, NULL));
    CHECK_OK(PAMI_Context_post(job.context[SERVED], &work, note_thread, NULL));
    WAIT_WITH(test_sleep(1e-4), load(&thread_id) != 0);
    test_sleep(0.1);
    before = sleeps();
    begin = test_now();
    if (blind) {
        WAIT_WITH(test_sleep(1e-3), sleeps() >= before + SLEEPS);
        CHECK(test_now() - begin < 20e-3 * SLEEPS * test_factor());
    } else {
        test_sleep(0.3);
        CHECK((double)(sleeps() - before) < 200 * (test_now() - begin));
    }
    job_finish(&job);
    return 0;
}
