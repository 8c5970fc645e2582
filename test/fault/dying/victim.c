/*
 * The task that dies: what it does at the end, and what it does until then when that is more than
 * ordinary traffic.
 */
#include "fault/dying/dying.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- acts ---- */

void act_kill(void)
{
    kill(getpid(), SIGKILL);
}

void act_abort(void)
{
    signal(SIGABRT, SIG_DFL);
    abort();
}

void act_fault(void)
{
    /* Under a sanitizer the signal has a handler that turns it into an exit status. */
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
}

void act_term(void)
{
    raise(SIGTERM);
}

void act_exit(void)
{
    exit(0);
}

void act_exit_3(void)
{
    exit(3);
}

void act_quick_exit(void)
{
    _exit(0);
}

void act_stop(void)
{
    raise(SIGSTOP);
}

/* Who has left its contexts goes on living until everybody has noticed. */
void act_leave(void)
{
    int signal;

    CHECK_OK(PAMI_Context_destroyv(dying.context, CONTEXTS));
    for (size_t noticed = 1; noticed < dying.tasks; noticed++)
        CHECK(sigwait(&dying.noticed, &signal) == 0);
    CHECK_OK(PAMI_Client_destroy(&dying.client));
    exit(0);
}

/* ---- leaving in order ---- */

/* Send to everybody without looking whether it arrives, and say how much it was. */
static void farewell(size_t messages, size_t kinds)
{
    for (size_t i = 0; i < messages; i++)
        for (size_t task = 0; task < dying.tasks; task++)
            if (task != dying.task)
                CHECK(send_one(task, (enum kind)(i % 8 != 0 ? KIND_IMMEDIATE : i / 8 % kinds)));
    for (size_t task = 0; task < dying.tasks; task++)
        if (task != dying.task)
            send_control(task, ID_DONE, dying.flow[task].sent);
}

void farewell_exit(void)
{
    farewell(FAREWELL_MESSAGES, KINDS);
    exit(0);
}

void farewell_destroy(void)
{
    farewell(FAREWELL_MESSAGES, KINDS);
    act_leave();
}

/* So few that all fit the survivors' inboxes, and nothing that has to be asked for. */
static void few(void)
{
    /* Until the others have stopped looking: what arrives now finds their end of it untouched. */
    if (dying.way->flags & QUIET)
        test_sleep(0.01);
    farewell(40, KIND_STREAM);
}

void few_exit(void)
{
    few();
    exit(0);
}

void few_destroy(void)
{
    few();
    CHECK_OK(PAMI_Context_destroyv(dying.context, CONTEXTS));
    CHECK_OK(PAMI_Client_destroy(&dying.client));
    exit(0);
}

void few_kill(void)
{
    few();
    act_kill();
}

void late_kill(void)
{
    test_sleep(0.02);
    act_kill();
}

void leave_unread(void)
{
    test_sleep(0.05);
    act_leave();
}

void leave_unread_and_exit(void)
{
    test_sleep(0.05);
    exit(0);
}

/* ---- threads ---- */

static void begin_thread(void *(*function)(void *), void *argument)
{
    pthread_t thread;

    CHECK(pthread_create(&thread, NULL, function, argument) == 0);
    CHECK(pthread_detach(thread) == 0);
}

static void *kill_soon(void *argument)
{
    test_sleep((double)*(size_t *)argument * 1e-6);
    act_kill();
    return NULL;
}

/* At any instruction of ordinary traffic. */
void kill_by_thread(void)
{
    static size_t delay_us;

    delay_us = 100 + random_below(15000);
    begin_thread(kill_soon, &delay_us);
    for (;;) {
        for (size_t task = 0; task < dying.tasks; task++)
            send_some(task, 4, 100);
        if (random_below(3) == 0)
            advance();
    }
}

static void *advance_for_ever(void *argument)
{
    for (;;) {
        PAMI_Context_lock(argument);
        PAMI_Context_advance(argument, 100);
        PAMI_Context_unlock(argument);
    }
    return NULL;
}

void exit_in_advance(void)
{
    for (size_t i = 0; i < CONTEXTS; i++)
        begin_thread(advance_for_ever, dying.context[i]);
    test_sleep(1e-6 * (double)random_below(20000));
    exit(0);
}

static void *wait_for_lock(void *argument)
{
    PAMI_Context_lock(argument);
    return NULL;
}

/* The lock is held by the thread that exits, and another waits for it. */
void exit_locked(void)
{
    CHECK_OK(PAMI_Context_lock(dying.context[0]));
    CHECK_OK(PAMI_Context_lock(dying.context[1]));
    begin_thread(wait_for_lock, dying.context[0]);
    test_sleep(1e-6 * (double)random_below(5000));
    exit(0);
}

static void *hold_lock(void *argument)
{
    CHECK_OK(PAMI_Context_lock(dying.context[0]));
    atomic_store((atomic_bool *)argument, true);
    for (;;)
        pause();
    return NULL;
}

/* The lock is held by a thread that does not return it. */
void exit_waiting_for_lock(void)
{
    static atomic_bool held;

    begin_thread(hold_lock, &held);
    while (!atomic_load(&held))
        test_sleep(0.0005);
    begin_thread(wait_for_lock, dying.context[0]);
    test_sleep(1e-6 * (double)random_below(5000));
    exit(0);
}

#define SENDING_MOST 300

static unsigned char constant[4000];

static void on_sent(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)result;
    --*(size_t *)cookie;
}

/* A context of its own; what it sends a survivor can check. All that was accepted arrives before
 * the end: it is more than an inbox holds, and no more than is soon read. */
static void *send_for_ever(void *argument)
{
    pami_context_t context = argument;
    size_t waiting = 0;

    for (;;) {
        size_t bytes = random_below(2) == 0 ? sizeof constant : 100;
        struct mark head = {.kind = KIND_EAGER, .bytes = (uint32_t)bytes};
        pami_send_t message = {
            .send = {.header = {.iov_base = &head, .iov_len = sizeof head},
                     .data = {.iov_base = constant, .iov_len = bytes},
                     .dispatch = ID_DATA,
                     .dest = dying.endpoint[(dying.task + 1) % dying.tasks]},
            .events = {.cookie = &waiting, .local_fn = on_sent},
        };

        PAMI_Context_lock(context);
        if (bytes == 100 && waiting < SENDING_MOST)
            PAMI_Send_immediate(context, &message.send);
        else if (waiting < SENDING_MOST)
            waiting += PAMI_Send(context, &message) == PAMI_SUCCESS;
        PAMI_Context_advance(context, 1);
        PAMI_Context_unlock(context);
    }
    return NULL;
}

/* The main thread leaves while others use contexts that are theirs. */
void exit_sending(void)
{
    for (size_t i = 0; i < sizeof constant; i++)
        constant[i] = pattern(0, i);
    for (size_t i = 1; i < CONTEXTS; i++)
        begin_thread(send_for_ever, dying.context[i]);
    test_sleep(1e-6 * (double)random_below(20000));
    exit(0);
}
