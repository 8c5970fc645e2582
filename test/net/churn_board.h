/*
 * What the tasks of net/churn tell one another by memory that they share without the library: what
 * became of each message, and where their memory is.
 */
#ifndef LIBPAMI_NET_CHURN_BOARD_H
#define LIBPAMI_NET_CHURN_BOARD_H

#include "net/share.h"

#include <sched.h>
#include <stdatomic.h>

enum {
    TASKS_MAX = 8,
    OPERATIONS_MAX = 1 << 18, /* of a task */
    SHARE_BYTES = 1 << 20     /* of a task's memory, for each other task to write to */
};

enum fate {
    PENDING,
    BEGUN,
    DELIVERED,
    FAILED
};

/* By all tasks. */
struct board {
    atomic_uchar fate[TASKS_MAX][OPERATIONS_MAX];
    atomic_uint ready[TASKS_MAX]; /* generation in which the task has published */
    void *memory[TASKS_MAX];
    struct {
        atomic_uint lock, lives; /* lives of the task that have published one */
        pami_memregion_t memory;
    } region[TASKS_MAX];
};

static struct board *board;
static unsigned generation;
static char (*memory)[SHARE_BYTES];

static atomic_uchar *fate_of(size_t task, size_t number)
{
    return &board->fate[task][number];
}

static void lock_region(size_t task)
{
    while (atomic_exchange(&board->region[task].lock, 1) != 0)
        sched_yield();
}

/* False: there is none yet. It may be of a life that is over: the memory is there all the same. */
static bool find_region(size_t task, pami_memregion_t region)
{
    if (atomic_load(&board->region[task].lives) == 0)
        return false;
    lock_region(task);
    memcpy(region, board->region[task].memory, sizeof(pami_memregion_t));
    atomic_store(&board->region[task].lock, 0);
    return true;
}

static void publish_region(struct job *job)
{
    size_t bytes = TASKS_MAX * sizeof *memory, usable;
    pami_memregion_t region;

    CHECK_OK(PAMI_Memregion_create(job->context[0], memory, bytes, &usable, &region));
    lock_region(job->task);
    memcpy(board->region[job->task].memory, region, sizeof region);
    atomic_store(&board->region[job->task].lock, 0);
    atomic_fetch_add(&board->region[job->task].lives, 1);
}

static void open_board(void)
{
    board = share_open("churn", sizeof *board);
}

static void wait_for_all(struct job *job)
{
    board->memory[job->task] = memory;
    atomic_store(&board->ready[job->task], ++generation);
    for (size_t task = 0; task < job->tasks; task++)
        while (atomic_load(&board->ready[task]) < generation)
            test_sleep(1e-4);
    share_forget("churn");
}

#endif
