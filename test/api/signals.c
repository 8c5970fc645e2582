/*
 * A signal every millisecond, as profilers send them, interrupts whatever the library does:
 * creating and destroying clients, sending, copying, waiting. No call may fail or lose anything.
 *
 * Run: tasks=1,2,4
 * Run: tasks=4 nodes=2
 * Run: tasks=2 env="PAMI_SHM_SINGLE_COPY=off PAMI_SHM_RING_SLOTS=8"
 * Run: tasks=5 env="PAMI_YIELD=always"
 */
#include "exchange.h"

#include <signal.h>
#include <sys/time.h>

enum {
    ID = 1,
    CLIENTS = 20
};

static volatile sig_atomic_t alarms;

static void on_alarm(int signal)
{
    (void)signal;
    alarms = alarms + 1;
}

int main(void)
{
    static const struct exchange_row rows[] = {
        {EXCHANGE_SEND, 0, 4u << 20}, {EXCHANGE_IMMEDIATE, 8, 8000},
        {EXCHANGE_SEND, 100, 40000},  {EXCHANGE_SEND, 9000, 300000},
        {EXCHANGE_QUIET, 8, 100000},  {EXCHANGE_REMOTE, 0, 8u << 20},
        {EXCHANGE_SEND, 1, 70000},    {EXCHANGE_IMMEDIATE, 500, 12},
        {EXCHANGE_SEND, 8, 1 << 20}};
    struct itimerval timer = {{0, 1000}, {0, 1000}};
    struct sigaction action = {.sa_handler = on_alarm}; /* system calls are not restarted */
    pami_dispatch_hint_t hints = {0};
    struct job job;
    size_t i;

    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
    for (i = 0; i < CLIENTS; i++) {
        job_start(&job, "signals", 1 + i % 3);
        if (i % 5 == 0)
            exchange_run(&job, ID, rows, sizeof rows / sizeof rows[0], hints);
        job_finish(&job);
    }
    CHECK(alarms > 0);
    memset(&timer, 0, sizeof timer);
    setitimer(ITIMER_REAL, &timer, NULL);
    return 0;
}
