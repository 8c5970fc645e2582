/*
 * EXT_async_progress and PAMIX_Context_async_* at their edges: arguments, events, functions of the
 * user's own, disabling from inside a callback, also each other's contexts, where the threads run,
 * leaving with everything still enabled.
 *
 * Run: tasks=1,3
 * Run: tasks=2 args="exit"
 * Run: tasks=2 args="_exit"
 * Run: tasks=2 args="thread"
 * Run: tasks=1 args="bound"
 * Run: tasks=1 args="nowhere" env="PAMI_ASYNC_CPUS=1023"
 */
#include "async.h"

#include <sched.h>
#include <sys/wait.h>

enum {
    PAMIX_CLIENT_ASYNC_GUARANTEE = 1016,
    CONTEXTS = 3,
    POSTS = 500
};

static struct job job;
static register_fn async_register;
static enable_fn async_enable, async_disable;
static size_t done, calls, inside;

static pami_result_t count(pami_context_t context, void *cookie)
{
    (void)context, (void)cookie;
    __atomic_fetch_add(&done, 1, __ATOMIC_RELEASE);
    return PAMI_SUCCESS;
}

static void post_and_spin(pami_context_t context, size_t posts)
{
    pami_work_t *work = test_zalloc(posts * sizeof *work);
    double until = test_now() + test_limit();

    __atomic_store_n(&done, 0, __ATOMIC_RELEASE);
    for (size_t i = 0; i < posts; i++)
        CHECK_OK(PAMI_Context_post(context, &work[i], count, NULL));
    while (load(&done) < posts)
        if (test_now() > until)
            FAIL("%zu of %zu posted functions were called", load(&done), posts);
    free(work);
}

static void open_extension(void)
{
    pami_extension_t extension;

    CHECK_OK(PAMI_Extension_open(NULL, "EXT_async_progress", &extension));
    CHECK(PAMI_Extension_symbol(extension, "suspend") == NULL);
    *(void **)&async_register = PAMI_Extension_symbol(extension, "Register");
    *(void **)&async_enable = PAMI_Extension_symbol(extension, "enable");
    *(void **)&async_disable = PAMI_Extension_symbol(extension, "DISABLE");
    CHECK(async_register != NULL && async_enable != NULL && async_disable != NULL);
    CHECK_OK(PAMI_Extension_close(extension));
    CHECK(client_attribute(job.client, (pami_attribute_name_t)PAMIX_CLIENT_ASYNC_GUARANTEE) != 0);
}

static void never(pami_context_t context, void *cookie)
{
    (void)context, (void)cookie;
    FAIL("called although the service is never suspended");
}

static void arguments(void)
{
    pami_context_t context = job.context[1];
    pamix_context_async_t how = {.cpus = "fast ones"};
    pamix_context_async_status_t status;
    pami_context_t some[] = {context, NULL};

    CHECK_RESULT(async_enable(NULL, PAMIX_ASYNC_ALL), PAMI_INVAL);
    CHECK_RESULT(async_disable(NULL, PAMIX_ASYNC_ALL), PAMI_INVAL);
    CHECK_RESULT(async_register(&job, NULL, NULL, NULL, NULL), PAMI_INVAL);
    CHECK_RESULT(async_enable(context, (pamix_async_t)77), PAMI_UNIMPL);
    CHECK_RESULT(async_enable(context, PAMIX_ASYNC_EXT), PAMI_UNIMPL);
    CHECK_RESULT(async_disable(context, (pamix_async_t)-1), PAMI_UNIMPL);
    CHECK_RESULT(async_register(context, NULL, never, NULL, NULL), PAMI_INVAL);
    CHECK_OK(async_disable(context, PAMIX_ASYNC_ALL)); /* which it is */

    CHECK_REFUSED(PAMIX_Context_async_enable(NULL, 1, NULL), PAMI_INVAL, "contexts");
    CHECK_REFUSED(PAMIX_Context_async_enable(&context, 1, &how), PAMI_INVAL, "cpus");
    CHECK_REFUSED(PAMIX_Context_async_disable(NULL, 1), PAMI_INVAL, "contexts");
    CHECK_REFUSED(PAMIX_Context_async_query(context, NULL), PAMI_INVAL, "status");
    CHECK_REFUSED(PAMIX_Context_async_query(NULL, &status), PAMI_INVAL, "context");
    CHECK_OK(PAMIX_Context_async_enable(NULL, 0, NULL));
    CHECK_OK(PAMIX_Context_async_query(context, &status));
    CHECK(!status.enabled && status.thread == -1 && status.threads == 0 && status.cpu == -1);
    CHECK_REFUSED(PAMIX_Context_async_enable(some, 2, NULL), PAMI_INVAL, "context"); /* none */
    CHECK_OK(PAMIX_Context_async_query(context, &status));
    CHECK(!status.enabled && status.threads == 0);
    CHECK_REFUSED(PAMIX_Client_async_place(job.client, "any"), PAMI_EAGAIN, "threads");
    CHECK_REFUSED(PAMIX_Client_async_place(NULL, "any"), PAMI_INVAL, "client");
    CHECK_REFUSED(PAMIX_Client_async_place(job.client, NULL), PAMI_INVAL, "cpus");
}

/* Where it was told to run: the first processor that we may use. */
static int cpu_seen;
static cpu_set_t may_use;

static pami_result_t look_where(pami_context_t context, void *cookie)
{
    cpu_seen = sched_getcpu();
    CHECK(sched_getaffinity(0, sizeof may_use, &may_use) == 0);
    return count(context, cookie);
}

static void ask_where(void)
{
    static pami_work_t work;

    done = 0;
    CHECK_OK(PAMI_Context_post(job.context[1], &work, look_where, NULL));
    WAIT_WITH(test_sleep(1e-4), load(&done) == 1);
}

/* Threads that are there go elsewhere. */
static void other_places(const cpu_set_t *mine)
{
    pamix_context_async_status_t status;
    char list[32];
    int last = CPU_SETSIZE - 1;

    while (!CPU_ISSET((size_t)last, mine))
        last--;
    snprintf(list, sizeof list, "%d", last);
    CHECK_REFUSED(PAMIX_Client_async_place(job.client, "2-"), PAMI_INVAL, "cpus");
    CHECK_OK(PAMIX_Client_async_place(job.client, list));
    snprintf(list, sizeof list, "%d,%d", last, CPU_SETSIZE - 1);
    if (last != CPU_SETSIZE - 1)
        CHECK_REFUSED(PAMIX_Client_async_place(job.client, list), PAMI_INVAL, "cpus");
    for (size_t i = 1; i < CONTEXTS; i++) {
        CHECK_OK(PAMIX_Context_async_query(job.context[i], &status));
        CHECK(status.enabled && status.cpu == last);
    }
    ask_where();
    CHECK(cpu_seen == last);
    CHECK_OK(PAMIX_Client_async_place(job.client, "any"));
    CHECK_OK(PAMIX_Context_async_query(job.context[1], &status));
    CHECK(status.enabled && status.cpu == -1);
    ask_where();
    CHECK(CPU_EQUAL(&may_use, mine));
}

static void places(void)
{
    pamix_context_async_status_t status;
    pamix_context_async_t how = {.threads = 2};
    cpu_set_t mine;
    char list[16];
    int first = 0;

    CHECK(sched_getaffinity(0, sizeof mine, &mine) == 0);
    while (!CPU_ISSET((size_t)first, &mine))
        first++;
    snprintf(list, sizeof list, "%d", first);
    how.cpus = list;
    CHECK_OK(PAMIX_Context_async_enable(&job.context[1], 2, &how));
    CHECK_OK(PAMIX_Context_async_query(job.context[2], &status));
    CHECK(status.enabled && status.threads == 2 && status.thread == 0 && status.cpu == first);
    CHECK_OK(PAMIX_Context_async_query(job.context[1], &status));
    CHECK(status.enabled && status.thread == 1 && status.cpu == first);
    ask_where();
    CHECK(cpu_seen == first);
    other_places(&mine);
    CHECK_REFUSED(PAMIX_Context_async_disable((pami_context_t[]){job.context[1], NULL}, 2),
                  PAMI_INVAL, "contexts");
    CHECK_OK(PAMIX_Context_async_query(job.context[1], &status));
    CHECK(status.enabled);
    CHECK_OK(PAMIX_Context_async_disable(&job.context[1], 2));
}

/* Events are counted one by one. */
static void events(void)
{
    pami_context_t context = job.context[1];

    CHECK_OK(async_register(context, NULL, never, never, NULL));
    CHECK_OK(async_enable(context, PAMIX_ASYNC_TIMER));
    CHECK_OK(async_enable(context, PAMIX_ASYNC_RECV_INTERRUPT));
    CHECK_RESULT(async_register(context, NULL, NULL, NULL, NULL), PAMI_ERROR);
    CHECK_OK(async_disable(context, PAMIX_ASYNC_TIMER));
    post_and_spin(context, POSTS);
    CHECK_OK(async_disable(context, PAMIX_ASYNC_ALL));
    for (int i = 0; i < 200; i++) {
        CHECK_OK(async_enable(context, PAMIX_ASYNC_ALL));
        post_and_spin(context, 1 + (size_t)i % 3);
        CHECK_OK(async_disable(context, PAMIX_ASYNC_ALL));
    }
}

/* The user's own function is called unlocked, by one thread at a time. */
static void progress(pami_context_t context, void *cookie)
{
    CHECK(cookie == &calls);
    CHECK_SIZE(__atomic_fetch_add(&inside, 1, __ATOMIC_ACQ_REL), 0);
    CHECK_OK(PAMI_Context_lock(context));
    test_advance(context, 10);
    CHECK_OK(PAMI_Context_unlock(context));
    __atomic_fetch_sub(&inside, 1, __ATOMIC_ACQ_REL);
    __atomic_fetch_add(&calls, 1, __ATOMIC_RELEASE);
}

/* What it does counts as what the thread does, of which a wait tells. */
static void own_events(pami_context_t context)
{
    pamix_context_async_status_t status = {0};
    double before;

    WAIT_WITH(CHECK_OK(PAMIX_Context_async_query(context, &status)), status.events >= POSTS);
    (void)PAMIX_Context_wait(context, 0);
    post_and_spin(context, 1);
    before = test_now();
    CHECK_OK(PAMIX_Context_wait(context, (size_t)(1e6 * test_factor())));
    CHECK(test_now() - before < 0.5 * test_factor());
}

static void own_function(void)
{
    pami_context_t context = job.context[2];

    CHECK_OK(async_register(context, progress, NULL, NULL, &calls));
    CHECK_OK(async_enable(context, PAMIX_ASYNC_ALL));
    post_and_spin(context, POSTS);
    CHECK(load(&calls) != 0);
    own_events(context);
    for (int i = 0; i < 50; i++) {
        CHECK_OK(PAMI_Context_lock(context));
        if (i % 2 == 0)
            CHECK_OK(async_disable(context, PAMIX_ASYNC_ALL)); /* with the lock held */
        CHECK_OK(PAMI_Context_unlock(context));
        CHECK_OK(async_enable(context, PAMIX_ASYNC_ALL));
        post_and_spin(context, 1);
    }
    CHECK_OK(async_disable(context, PAMIX_ASYNC_ALL));
    CHECK_OK(async_register(context, NULL, NULL, NULL, NULL));
}

/* A function of the user's hands the context over to the library. */
static void hand_over(pami_context_t context, void *cookie)
{
    CHECK_OK(async_disable(context, PAMIX_ASYNC_ALL));
    CHECK_OK(async_register(context, NULL, NULL, NULL, NULL));
    CHECK_OK(async_enable(context, PAMIX_ASYNC_ALL));
    count(context, cookie);
}

/* It stays until told, and the caller holds a lock that it might want. */
static void linger(pami_context_t context, void *cookie)
{
    (void)context;
    __atomic_store_n(&calls, 1, __ATOMIC_RELEASE);
    while (load(cookie) == 0)
        sched_yield();
}

static void other_function(void)
{
    pami_context_t context = job.context[2];
    size_t leave_it = 0;

    done = calls = 0;
    CHECK_OK(async_register(context, hand_over, NULL, NULL, NULL));
    CHECK_OK(async_enable(context, PAMIX_ASYNC_ALL));
    WAIT_WITH(test_sleep(1e-4), load(&done) == 1);
    post_and_spin(context, POSTS);
    CHECK_OK(async_disable(context, PAMIX_ASYNC_ALL));

    CHECK_OK(async_register(context, linger, NULL, NULL, &leave_it));
    CHECK_OK(async_enable(context, PAMIX_ASYNC_ALL));
    WAIT_WITH(test_sleep(1e-4), load(&calls) == 1);
    CHECK_OK(PAMI_Context_lock(context));
    CHECK_OK(async_disable(context, PAMIX_ASYNC_ALL));
    CHECK_RESULT(async_register(context, NULL, NULL, NULL, NULL), PAMI_EAGAIN);
    __atomic_store_n(&leave_it, 1, __ATOMIC_RELEASE);
    CHECK_OK(PAMI_Context_unlock(context));
    CHECK_OK(async_disable(context, PAMIX_ASYNC_ALL));
    CHECK_OK(async_register(context, NULL, NULL, NULL, NULL));
}

/* From inside a callback: over when the callback has returned. */
static pami_result_t disable_self(pami_context_t context, void *cookie)
{
    CHECK_RESULT(PAMI_Context_advance(context, (size_t)-1), PAMI_EAGAIN); /* nested */
    CHECK_OK(async_disable(context, PAMIX_ASYNC_ALL));
    return count(context, cookie);
}

static void from_inside(void)
{
    pami_context_t context = job.context[1];
    static pami_work_t work[2];

    done = 0;
    CHECK_OK(async_enable(context, PAMIX_ASYNC_ALL));
    CHECK_OK(PAMI_Context_post(context, &work[0], disable_self, NULL));
    WAIT_WITH(test_sleep(1e-4), load(&done) == 1);
    CHECK_OK(async_disable(context, PAMIX_ASYNC_ALL));
    CHECK_OK(PAMI_Context_post(context, &work[1], count, NULL));
    test_sleep(0.02);
    CHECK_SIZE(load(&done), 1);
    test_advance(context, 1);
    CHECK_SIZE(load(&done), 2);
}

/* Who disables it again from outside waits for the callback all the same. */
static size_t disabled, returned;

static pami_result_t disable_and_stay(pami_context_t context, void *cookie)
{
    (void)cookie;
    CHECK_OK(async_disable(context, PAMIX_ASYNC_ALL));
    __atomic_store_n(&disabled, 1, __ATOMIC_RELEASE);
    test_sleep(0.05);
    __atomic_store_n(&returned, 1, __ATOMIC_RELEASE);
    return PAMI_SUCCESS;
}

static void from_inside_and_outside(void)
{
    pami_context_t context = job.context[1];
    static pami_work_t work;

    CHECK_OK(async_enable(context, PAMIX_ASYNC_ALL));
    CHECK_OK(PAMI_Context_post(context, &work, disable_and_stay, NULL));
    WAIT_WITH(test_sleep(1e-4), load(&disabled) == 1);
    CHECK_OK(async_disable(context, PAMIX_ASYNC_ALL));
    CHECK_SIZE(load(&returned), 1);
}

/* Two threads, of one client or of two, each in a callback in which it disables the context of the
 * other. */
static pami_result_t disable_other(pami_context_t context, void *cookie)
{
    __atomic_fetch_add(&inside, 1, __ATOMIC_ACQ_REL);
    while (load(&inside) != 2)
        sched_yield();
    CHECK_OK(async_disable(cookie, PAMIX_ASYNC_ALL));
    return count(context, cookie);
}

static void disable_each_other(pami_context_t one, pami_context_t other)
{
    static pami_work_t work[2];

    done = inside = 0;
    CHECK_OK(PAMIX_Context_async_enable(&one, 1, NULL));
    CHECK_OK(PAMIX_Context_async_enable(&other, 1, NULL));
    CHECK_OK(PAMI_Context_post(one, &work[0], disable_other, other));
    CHECK_OK(PAMI_Context_post(other, &work[1], disable_other, one));
    WAIT_WITH(test_sleep(1e-4), load(&done) == 2);
    CHECK_OK(PAMIX_Context_async_disable(&one, 1));
    CHECK_OK(PAMIX_Context_async_disable(&other, 1));
    inside = 0;
}

static void from_each_other(void)
{
    struct job second;

    disable_each_other(job.context[1], job.context[2]);
    job_start(&second, "second", 2);
    disable_each_other(job.context[1], second.context[1]);
    job_finish(&second);
}

static pami_result_t leave_here(pami_context_t context, void *cookie)
{
    (void)context, (void)cookie;
    exit(0);
}

/* The end of a process that has left everything on. */
static void leave(const char *how)
{
    static pami_work_t work;

    CHECK_OK(PAMIX_Context_async_enable(job.context, CONTEXTS, NULL));
    post_and_spin(job.context[1], 10);
    if (strcmp(how, "_exit") == 0)
        _exit(0);
    if (strcmp(how, "exit") == 0)
        exit(0);
    CHECK_OK(PAMI_Context_post(job.context[1], &work, leave_here, NULL));
    for (;;)
        test_sleep(1);
}

/* A task that is bound to one core has its thread on another one, if there is one. */
static void bind_to_first(cpu_set_t *all)
{
    cpu_set_t one;
    size_t first = 0;

    CHECK(sched_getaffinity(0, sizeof *all, all) == 0);
    while (!CPU_ISSET(first, all))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
}

static void bound(const cpu_set_t *all)
{
    pamix_context_async_status_t status;
    cpu_set_t mine;

    CHECK(sched_getaffinity(0, sizeof mine, &mine) == 0);
    CHECK_OK(PAMIX_Context_async_enable(job.context, CONTEXTS, NULL));
    CHECK_OK(PAMIX_Context_async_query(job.context[0], &status));
    if (status.cpu >= 0)
        CHECK(!CPU_ISSET((size_t)status.cpu, &mine));
    else if (CPU_COUNT(all) > 1)
        FAIL("there are %d processors, and the thread shares the program's", CPU_COUNT(all));
    job_finish(&job);
}

/* Nor does a thread that may not run where the option says pass for one that does. */
static void nowhere(void)
{
    pamix_context_async_status_t status;

    CHECK_OK(PAMIX_Context_async_enable(job.context, CONTEXTS, NULL));
    CHECK_OK(PAMIX_Context_async_query(job.context[0], &status));
    CHECK(status.enabled && (status.cpu == -1 || sysconf(_SC_NPROCESSORS_CONF) > 1023));
    post_and_spin(job.context[0], POSTS);
    job_finish(&job);
}

static size_t busy;

static void stay(pami_context_t context, void *cookie)
{
    size_t *until = cookie;

    (void)context;
    __atomic_store_n(&busy, 1, __ATOMIC_RELEASE);
    while (load(until) == 0)
        sched_yield();
}

/* A child has none of the threads, one of which was at work when it came. */
static void forked(void)
{
    pami_context_t context = job.context[2];
    size_t go_on = 0;
    pid_t child;
    int status;

    CHECK_OK(async_register(context, stay, NULL, NULL, &go_on));
    CHECK_OK(async_enable(context, PAMIX_ASYNC_ALL));
    WAIT_WITH(test_sleep(1e-4), load(&busy) != 0);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        alarm(10 * (unsigned)test_factor());
        _exit(async_disable(context, PAMIX_ASYNC_ALL) == PAMI_SUCCESS ? 0 : 1);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    __atomic_store_n(&go_on, 1, __ATOMIC_RELEASE);
    CHECK_OK(async_disable(context, PAMIX_ASYNC_ALL));
    CHECK_OK(async_register(context, NULL, NULL, NULL, NULL));
}

int main(int argc, char **argv)
{
    bool is_bound = argc > 1 && strcmp(argv[1], "bound") == 0;
    cpu_set_t all;

    if (is_bound)
        bind_to_first(&all);
    job_start(&job, "async_extension", CONTEXTS);
    job.driven = 1;
    open_extension();
    if (is_bound) {
        bound(&all);
        return 0;
    }
    if (argc > 1 && strcmp(argv[1], "nowhere") == 0) {
        nowhere();
        return 0;
    }
    if (argc > 1)
        leave(argv[1]);
    arguments();
    places();
    events();
    own_function();
    other_function();
    from_inside();
    from_inside_and_outside();
    from_each_other();
    forked();
    job_finish(&job);
    return 0;
}
