/*
 * A task destroys its contexts and creates them again, and the others hear of it in another way
 * than from them, by another client: what they send then is for the new contexts, whether the news
 * that the old ones have ended has come or not. Nothing of it is lost, and nothing that was sent to
 * the old ones comes; also when they are asked for the first time in a later life of theirs, and
 * when others wait to be sent to them. A task that is stopped, and so does not hear of the new
 * contexts, is waited for once and not for each of them.
 *
 * Run: tasks=3 timeout=60
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi" timeout=60
 * Run: tasks=3 nodes=3 env="PAMI_NETWORK=ofi" timeout=60
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi PAMI_OFI_CREDITS=4" timeout=60
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi PAMI_OFI_PROVIDER=tcp;ofi_rxm" timeout=60
 * Run: tasks=2 nodes=2 args="stopped" env="PAMI_NETWORK=ofi PAMI_DRAIN_TIMEOUT=1" timeout=60
 */
#include "api/api_test.h"

#include <signal.h>

enum {
    ID_WORD = 10,
    ID_BULK,
    ID_FLOOD,
    LIVES = 24,
    CONTEXTS = 2,
    MANY = 8,
    LARGE = 300000,
    FLOOD = 2000
};

static struct job job, steady; /* the contexts that come and go; those that stay */
static size_t life;
static size_t words[MANY], bulks[MANY], done, failed;
static char bulk[MANY][LARGE];

static void advance_steady(void)
{
    job_advance_alone(&steady);
}

static void advance_job(void)
{
    if (job.contexts != 0)
        job_advance_alone(&job);
}

static void on_word(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                    const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    size_t from;

    (void)context, (void)data, (void)bytes, (void)origin;
    CHECK(recv == NULL && header_bytes == sizeof from);
    memcpy(&from, header, sizeof from);
    CHECK_SIZE(from, life);
    ++*(size_t *)cookie;
}

static void on_flood(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                     const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes;
    (void)data, (void)bytes, (void)origin, (void)recv;
}

static void on_landed(pami_context_t context, void *cookie, pami_result_t result)
{
    size_t which = (size_t)((char(*)[LARGE])cookie - bulk);

    (void)context;
    CHECK_RESULT(result, PAMI_SUCCESS);
    CHECK(test_differs(bulk[which], LARGE, life, 0) == LARGE);
    bulks[which]++;
}

static void on_bulk(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                    const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)context, (void)header, (void)header_bytes, (void)data, (void)origin;
    CHECK(recv != NULL && bytes == LARGE);
    recv->addr = recv->cookie = cookie;
    recv->local_fn = on_landed;
}

static void on_done(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    if (result == PAMI_SUCCESS)
        done++;
    else
        failed++;
}

static void create(size_t contexts)
{
    job_create_contexts(&job, contexts);
    job.advance_too = advance_steady;
    for (size_t i = 0; i < contexts; i++) {
        words[i] = bulks[i] = 0;
        test_dispatch(job.context[i], ID_WORD, on_word, &words[i], test_ordered());
        test_dispatch(job.context[i], ID_BULK, on_bulk, bulk[i], test_ordered());
        test_dispatch(job.context[i], ID_FLOOD, on_flood, NULL, test_ordered());
    }
}

/* Everybody but task 1 sends to its new contexts, of which it has heard at the barrier. */
static void send_all(void)
{
    static char data[LARGE];
    pami_send_event_t events = {.remote_fn = on_done};

    done = failed = 0;
    test_fill(data, sizeof data, life, 0);
    for (size_t i = 0; i < job.contexts; i++) {
        pami_endpoint_t dest = job_endpoint(&job, 1, i);

        test_send_immediate(job.context[0], dest, ID_WORD, &life, sizeof life, NULL, 0);
        test_send(job.context[0], dest, ID_WORD, &life, sizeof life, "x", 1, events);
        test_send(job.context[0], dest, ID_BULK, NULL, 0, data, sizeof data, events);
    }
    WAIT(&job, done + failed == 2 * job.contexts);
    CHECK_SIZE(failed, 0);
}

static bool all_came(void)
{
    for (size_t i = 0; i < job.contexts; i++)
        if (words[i] != 2 * (job.tasks - 1) || bulks[i] != job.tasks - 1)
            return false;
    return true;
}

/* May be lost, and fills the way to contexts that are about to go. */
static void flood(void)
{
    for (size_t i = 0; i < FLOOD; i++) {
        pami_send_immediate_t word =
            test_message(job_endpoint(&job, 1, i % 2), ID_FLOOD, NULL, 0, "flood", 5);

        if (PAMI_Send_immediate(job.context[0], &word) != PAMI_SUCCESS)
            return;
    }
}

/* For longer than it would take to wait for it for each context. */
static void stop(void)
{
    if (fork() == 0) {
        sleep(MANY + 2);
        kill(getppid(), SIGCONT);
        _exit(0);
    }
    raise(SIGSTOP);
}

static void create_beside_stopped(void)
{
    double before;

    job_create_client(&job, "told");
    create(MANY);
    for (size_t i = 0; i < MANY; i++)
        test_send_immediate(job.context[i], job_endpoint(&job, !job.task, i), ID_WORD, &life,
                            sizeof life, NULL, 0);
    for (size_t i = 0; i < MANY; i++)
        WAIT(&job, words[i] == 1);
    job_barrier(&steady);
    if (job.task == 1) {
        stop();
    } else {
        test_sleep(0.5);
        job_destroy_contexts(&job);
        before = test_now();
        create(MANY);
        CHECK(test_now() - before < MANY / 2);
    }
    job_barrier(&steady);
    job_destroy(&job);
}

int main(int argc, char **argv)
{
    job_start(&steady, "steady", 1);
    if (argc > 1 && strcmp(argv[1], "stopped") == 0) {
        create_beside_stopped();
        job_finish(&steady);
        return 0;
    }
    job_create_client(&job, "told");
    create(CONTEXTS);
    steady.advance_too = advance_job;
    for (; life < LIVES; life++) {
        if (life != 0 && job.task == 1) {
            job_destroy_contexts(&job);
            create(CONTEXTS);
        } else if (life % 3 == 1) {
            flood();
        } else if (life % 5 == 2) {
            steady.advance_too = NULL; /* what comes is seen after the barrier at first */
        }
        job_barrier(&steady);
        steady.advance_too = advance_job;
        if (job.task != 1)
            send_all();
        else
            WAIT(&job, all_came());
        job_barrier(&steady);
    }
    job_barrier(&steady);
    job_destroy(&job);
    job_finish(&steady);
    return 0;
}
