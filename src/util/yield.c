#include "util/yield.h"

#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "util/clock.h"
#include "util/cpu.h"
#include "util/minmax.h"

static _Thread_local struct {
    uint32_t tries;
    uint64_t called; /* when, for the last time */
    uint64_t waited; /* ticks */
    uint64_t gap, enough;
} row __attribute__((tls_model("initial-exec"))) = {.tries = UINT32_MAX / 2}; /* nobody's next */

static void measure(void)
{
    row.gap = (uint64_t)(YIELD_GAP_US * clock_ticks_per_us());
    row.enough = (uint64_t)(YIELD_REST_US * clock_ticks_per_us());
}

static inline void begin_row(void)
{
    row.waited = 0;
    if (unlikely(row.enough == 0))
        measure();
}

static void rest(void)
{
    static const struct timespec moment = {.tv_nsec = 1};

    syscall(SYS_nanosleep, &moment, NULL); /* no cancellation point */
    row.waited = 0;
}

HOT void yield_again(uint32_t tries)
{
    uint64_t now = clock_ticks(), passed = now - row.called;

    if (tries - row.tries - 1 >= YIELD_STEP_MOST)
        begin_row();
    else
        row.waited += smaller(passed, row.gap);
    row.tries = tries;
    row.called = now;
    if (unlikely(row.waited >= row.enough))
        rest();
    else
        sched_yield();
}
