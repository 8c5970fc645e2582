/*
 * pami_server: a communication server as a process. Started by pamirun --servers, never by hand.
 *
 * It takes part in the start of the first client of a job as one more task that nobody sees. Then
 * it takes calls from the tasks of its domain (servers/protocol.h), carries them out on its own
 * context, and answers. Data stays where it is, in the shared heaps of the callers, which it maps;
 * data that comes along with a call is kept until the operation has ended.
 *
 * One queue, by arrival. Calls wait there while as much is in flight as their caller allows, and
 * while data is on its way. It sleeps when there is nothing to do, and dies with pamirun, or when
 * pamirun sees that all tasks have ended.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pami/pamix.h>

#include "bootstrap/bootstrap.h"
#include "context/context.h"
#include "p2p/message.h"
#include "p2p/mover.h"
#include "servers/protocol.h"
#include "util/list.h"

/* Longest sleep, us: messages end it. */
#define SLEEP_US 100000u
#define SLEEP_AGAIN_US 100u /* while something waits that may have to be tried again */
#define PASSES 64

struct serving {
    struct context *context;
    struct message_watch watch;
    struct list waiting;    /* struct job, by arrival */
    struct list started;    /* struct job, whose operation is under way */
    struct list unanswered; /* struct job, ended: there was no memory for the answer */
    size_t in_flight;
};

struct job {
    struct list link;
    struct serving *serving;
    struct server_call call;
    uint32_t caller;
    uint32_t left;        /* callbacks that the operation will still make */
    bool ready;           /* its data is there */
    bool abandoned;       /* the caller has gone */
    pami_result_t result; /* of one that is unanswered */
    size_t header_bytes;  /* of the user's header */
    char *data;           /* that came along */
    char header[];
};

static void go_on(struct serving *serving);

/* ---- answers ---- */

/* False: no memory. */
static bool answer(const struct job *job, bool last, pami_result_t result)
{
    const struct server_answer answer = {job->call.handle, last, (int32_t)result};

    return job->abandoned || message_send(job->serving->context, job->caller, MESSAGE_SERVERS,
                                          &answer, sizeof(answer), NULL, 0, NULL, NULL) != -ENOMEM;
}

static void job_free(struct job *job)
{
    free(job->data);
    free(job);
}

static void job_end(struct job *job, pami_result_t result)
{
    job->result = result;
    if (answer(job, true, result))
        job_free(job);
    else
        list_push_back(&job->serving->unanswered, &job->link);
}

static void answer_again(struct serving *serving)
{
    struct list *item, *following;

    list_for_each_safe (item, following, &serving->unanswered) {
        struct job *job = list_entry(item, struct job, link);

        if (!answer(job, true, job->result))
            return;
        list_remove(item);
        job_free(job);
    }
}

/* As in flight: of what has an end that never has to wait for a call behind it. That of a large
 * message may wait until its data has been fetched, and so may a fence. */
static bool counts(const struct job *job)
{
    return job->call.kind == CALL_PUT || job->call.kind == CALL_GET ||
           (job->call.kind == CALL_SEND && job->call.bytes < MOVER_BYTES);
}

static void on_event(pami_context_t context, void *cookie, pami_result_t result)
{
    struct job *job = cookie;
    struct serving *serving = job->serving;

    (void)context;
    if (--job->left != 0) {
        if ((job->call.flags & CALL_FIRST) != 0)
            answer(job, false, result); /* else the last one stands for both */
        return;
    }
    serving->in_flight -= counts(job);
    list_remove(&job->link);
    job_end(job, result);
    go_on(serving);
}

/* ---- carrying out ---- */

/* The caller's data, or room for it, as it is seen here; NULL: there is none. */
static void *data_of(const struct job *job)
{
    const struct device *device = core_heap_device(job->serving->context->core);
    uint64_t offset;
    struct heap_view view;

    if ((job->call.flags & CALL_CARRIED) != 0)
        return job->data;
    if (device == NULL ||
        device->ops->heap_view((struct device *)device, endpoint_task(job->caller), &view) != 0)
        return NULL;
    offset = job->call.local - view.remote;
    return offset < view.bytes && job->call.bytes <= view.bytes - offset ? view.local + offset
                                                                         : NULL;
}

static pami_rma_t transfer(struct job *job)
{
    return (pami_rma_t){.dest = job->call.dest,
                        .hints = job->call.hints,
                        .bytes = job->call.bytes,
                        .cookie = job,
                        .done_fn = on_event};
}

static pami_result_t start_put(struct job *job, void *data)
{
    pami_put_simple_t call = {.rma = transfer(job),
                              .addr = {data, (void *)(uintptr_t)job->call.remote},
                              .put = {on_event}};

    job->left = 2;
    return PAMI_Put(job->serving->context, &call);
}

static pami_result_t start_get(struct job *job, void *data)
{
    pami_get_simple_t call = {.rma = transfer(job),
                              .addr = {data, (void *)(uintptr_t)job->call.remote}};

    job->left = 1;
    return PAMI_Get(job->serving->context, &call);
}

/* Nobody sends to a server. */
static void on_message(pami_context_t context, void *cookie, const void *header, size_t header_size,
                       const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_size;
    (void)data, (void)bytes, (void)origin;
    if (recv != NULL)
        memset(recv, 0, sizeof(*recv));
}

/* The id is registered here as its caller has it there: others may have other hints for theirs. */
static pami_result_t know_dispatch(struct context *context, const struct server_call *call)
{
    const struct dispatch *row = dispatch_registered(&context->dispatch, call->dispatch);
    pami_dispatch_callback_function function = {.p2p = on_message};

    if (row != NULL && memcmp(&row->hints, &call->dispatch_hints, sizeof(row->hints)) == 0)
        return PAMI_SUCCESS;
    return PAMI_Dispatch_set(context, call->dispatch, function, NULL, call->dispatch_hints);
}

static pami_result_t start_send(struct job *job, void *data)
{
    struct serving *serving = job->serving;
    pami_send_t message = {
        .send = {.header = {job->header, job->header_bytes},
                 .data = {data, job->call.bytes},
                 .dispatch = job->call.dispatch,
                 .hints = job->call.hints,
                 .dest = job->call.dest},
        .events = {.cookie = job, .local_fn = on_event},
    };
    pami_result_t result = know_dispatch(serving->context, &job->call);

    if (result != PAMI_SUCCESS)
        return result;
    if (job->call.kind == CALL_IMMEDIATE)
        return PAMI_Send_immediate(serving->context, &message.send);
    job->left = 1;
    if ((job->call.flags & CALL_REMOTE) != 0) {
        job->left = 2;
        message.events.remote_fn = on_event;
    }
    return PAMI_Send(serving->context, &message);
}

/* False: it must be tried again. */
static bool start(struct job *job)
{
    struct serving *serving = job->serving;
    void *data = data_of(job);
    pami_result_t result = PAMI_INVAL;

    if (job->call.kind == CALL_FENCE) {
        job->left = 1;
        result = PAMI_Fence_all(serving->context, on_event, job);
    } else if (data == NULL && job->call.bytes != 0) {
        result = PAMI_INVAL;
    } else if (job->call.kind == CALL_PUT) {
        result = start_put(job, data);
    } else if (job->call.kind == CALL_GET) {
        result = start_get(job, data);
    } else {
        result = start_send(job, data);
    }
    if (result == PAMI_EAGAIN)
        return false;
    if (result == PAMI_SUCCESS && job->call.kind != CALL_IMMEDIATE) {
        serving->in_flight += counts(job);
        list_push_back(&serving->started, &job->link);
        return true;
    }
    if (result != PAMI_SUCCESS && (job->call.flags & CALL_FIRST) != 0)
        answer(job, false, result);
    job_end(job, result);
    return true;
}

static void go_on(struct serving *serving)
{
    while (!list_empty(&serving->waiting)) {
        struct job *job = list_entry(serving->waiting.next, struct job, link);

        if (job->abandoned && job->ready) {
            list_remove(&job->link);
            job_free(job);
            continue;
        }
        if (!job->ready || (job->call.limit != 0 && serving->in_flight >= job->call.limit))
            return;
        list_remove(&job->link);
        if (!start(job)) {
            list_push_front(&serving->waiting, &job->link);
            return;
        }
    }
}

/* ---- calls ---- */

/* Data that does not come ends the job, with an answer unless it is the caller that has gone. */
static void on_data(pami_context_t context, void *cookie, pami_result_t result)
{
    struct job *job = cookie;
    struct serving *serving = job->serving;

    job->ready = true;
    if (result != PAMI_SUCCESS) {
        job->abandoned = job->abandoned || message_has_gone(context, job->caller);
        list_remove(&job->link);
        job_end(job, result);
    }
    go_on(serving);
}

static struct job *job_new(const void *header, size_t header_size)
{
    size_t more = header_size - sizeof(struct server_call);
    struct job *job = calloc(1, sizeof(*job) + more);

    if (job == NULL)
        return NULL;
    memcpy(&job->call, header, sizeof(job->call));
    memcpy(job->header, (const char *)header + sizeof(job->call), more);
    job->header_bytes = more;
    return job;
}

static bool is_call(const struct server_call *call, size_t header_size, size_t bytes)
{
    return header_size >= sizeof(*call) && call->kind < CALL_KINDS &&
           bytes == ((call->flags & CALL_CARRIED) != 0 ? call->bytes : 0);
}

static void on_call(pami_context_t context, void *cookie, const void *header, size_t header_size,
                    const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    struct serving *serving = cookie;
    struct message_place place = {NULL, NULL, 0};
    struct job *job = NULL;

    (void)context;
    if (is_call(header, header_size, bytes)) {
        job = job_new(header, header_size);
        if (job == NULL) {
            message_put_back(serving->context, recv);
            return;
        }
        job->serving = serving;
        job->caller = origin;
        job->data = bytes != 0 ? malloc(bytes) : NULL;
    }
    if (job == NULL || (bytes != 0 && job->data == NULL)) {
        if (recv != NULL)
            message_accept(recv, &place, NULL, NULL);
        if (job != NULL)
            job_end(job, PAMI_ENOMEM);
        return;
    }
    job->ready = recv == NULL;
    list_push_back(&serving->waiting, &job->link);
    if (recv != NULL) {
        place.address = job->data;
        message_accept(recv, &place, on_data, job);
        return;
    }
    if (bytes != 0)
        memcpy(job->data, data, bytes);
    go_on(serving);
}

static void abandon(struct list *jobs, uint32_t caller)
{
    struct list *item;

    list_for_each (item, jobs) {
        struct job *job = list_entry(item, struct job, link);

        if (job->caller == caller)
            job->abandoned = true;
    }
}

static void on_gone(struct message_watch *watch, struct context *context, uint32_t endpoint)
{
    struct serving *serving = container_of(watch, struct serving, watch);

    (void)context;
    abandon(&serving->waiting, endpoint);
    abandon(&serving->started, endpoint);
    abandon(&serving->unanswered, endpoint);
}

/* ---- the whole ---- */

static int say_that_it_serves(const struct client_core *core)
{
    char key[BOOTSTRAP_KEY_MAX + 1];

    snprintf(key, sizeof(key), SERVER_SERVES, core->task);
    return bootstrap_put(core->bootstrap, key, "yes");
}

static int fail(const char *what)
{
    char text[512] = "";

    PAMI_Error_text(text, sizeof(text));
    fprintf(stderr, "pami_server: %s: %s\n", what, text);
    return 1;
}

static void serve(struct serving *serving)
{
    for (;;) {
        bool idle;

        answer_again(serving);
        go_on(serving);
        idle = list_empty(&serving->waiting) && list_empty(&serving->unanswered);
        if (PAMI_Context_advance(serving->context, PASSES) != PAMI_SUCCESS)
            PAMIX_Context_wait(serving->context, idle ? SLEEP_US : SLEEP_AGAIN_US);
    }
}

/* -1: not an option that every tool has. */
static int print(const char *option)
{
    if (strcmp(option, "--help") == 0)
        puts("Usage: pamirun --servers K [OPTION]... PROGRAM [ARGUMENT]...\n"
             "K processes of pami_server on each node carry out communication for the tasks of\n"
             "PROGRAM. They are started in this way only.");
    else if (strcmp(option, "--version") == 0)
        puts("pami_server (libpami) " PAMI_VERSION_TEXT);
    else
        return -1;
    if (fflush(stdout) == 0)
        return 0;
    perror("pami_server: cannot write");
    return 1;
}

int main(int argc, char **argv)
{
    /* Signals that are passed on to the tasks are theirs; pamirun ends servers with KILL. */
    static const int theirs[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
    static struct serving serving;
    pami_client_t client;
    pami_context_t context;
    int status = argc == 2 ? print(argv[1]) : -1;

    if (status >= 0)
        return status;
    for (size_t i = 0; i < sizeof(theirs) / sizeof(theirs[0]); i++)
        signal(theirs[i], SIG_IGN);
    if (PAMI_Client_create("server", &client, NULL, 0) != PAMI_SUCCESS)
        return fail("no client");
    if (PAMI_Context_createv(client, NULL, 0, &context, 1) != PAMI_SUCCESS)
        return fail("no context");
    serving.context = context;
    if (serving.context->core->task < serving.context->core->tasks) {
        fputs("pami_server: is started by pamirun --servers only\n", stderr);
        return 2;
    }
    list_init(&serving.waiting);
    list_init(&serving.started);
    list_init(&serving.unanswered);
    serving.watch.gone = on_gone;
    message_watch(context, &serving.watch);
    message_register(context, MESSAGE_SERVERS, on_call, &serving);
    if (say_that_it_serves(serving.context->core) != 0)
        return fail("cannot say that it serves");
    serve(&serving);
}
