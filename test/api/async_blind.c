/*
 * Where the kernel has no membarrier, or refuses it to one of the tasks, a sleeper may miss who
 * rings, so a thread of asynchronous progress looks for itself, every millisecond. Elsewhere it
 * sleeps.
 *
 * Run: tasks=1
 * Run: tasks=2
 * Run: tasks=2 args="refused"
 */
#include "async.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/membarrier.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
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

/* As in a container with an older filter. */
static void refuse_membarrier(void)
{
    struct sock_filter filter[] = {
        {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr)},
        {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_membarrier},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | EPERM},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
    };
    struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        test_skip("system calls cannot be forbidden here");
}

int main(int argc, char **argv)
{
    static pami_work_t work;
    bool blind = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) != 0;
    const char *task = getenv("PMI_RANK");
    double begin;
    long before;

    if (argc > 1 && strcmp(argv[1], "refused") == 0) {
        blind = true;
        if (task != NULL && strcmp(task, "1") == 0)
            refuse_membarrier();
    }
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
