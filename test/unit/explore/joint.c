/*
 * Scenarios of joint copies: each piece is moved before the owner hears of the end, and nobody
 * touches memory of the copy after that, however late the guest is, and whether a piece fails, or
 * somebody dies or leaves. A piece is its first byte here.
 */
#include "tasks.h"

enum {
    PIECES = 3,
    PIECE = 32 << 10,
    COPIES = 2
};

static char *near, *far;
static struct transfer *transfer;
static unsigned ended, failed;
static atomic_bool *over;
static bool fails;

/* Between memory of two tasks, which is all here. */
ssize_t __wrap_shm_copy_memory(const struct shm_device *device, uint32_t member, bool put,
                               const struct copy_pieces *pieces);
ssize_t __wrap_shm_copy_memory(const struct shm_device *device, uint32_t member, bool put,
                               const struct copy_pieces *pieces)
{
    char *local = pieces->local->iov_base, *remote = pieces->remote->iov_base;

    (void)device;
    (void)member;
    REQUIRE(pieces->local->iov_len == PIECE && pieces->remote->iov_len == PIECE);
    if (fails && explore_self() == 1 && explore_choose(2) == 1) {
        errno = EFAULT;
        return -1;
    }
    if (put)
        *remote = *local;
    else
        *local = *remote;
    return PIECE;
}

static void on_done(struct transfer *what, int error)
{
    REQUIRE(what == transfer);
    REQUIRE(error == 0 || error == -EPIPE);
    ended++;
    failed += error != 0;
}

static void make_pair(void)
{
    make_tasks();
    for (unsigned i = 0; i < 2; i++)
        atomic_store(&tasks[i].device.copy_works[!i], COPY_WORKS);
    near = explore_alloc(PIECES * PIECE, 64);
    far = explore_alloc(PIECES * PIECE, 64);
    transfer = explore_alloc(sizeof(*transfer), 64);
    over = explore_alloc(sizeof(*over), 64);
    transfer->done = on_done;
    ended = failed = 0;
    fails = false;
}

static void make_failing(void)
{
    make_pair();
    fails = true;
}

static bool begin(bool put)
{
    const struct joint_copy copy = {
        .transfer = transfer,
        .local = near,
        .remote = (uintptr_t)far,
        .bytes = PIECES * PIECE,
        .put = put,
    };

    return joint_begin(container_of(tasks[0].paths[1], struct shm_path, path), &copy);
}

static void copy_one(unsigned number)
{
    bool put = number % 2 == 0;
    char *from = put ? near : far, *to = put ? far : near;

    for (int i = 0; i < PIECES; i++) {
        from[i * PIECE] = (char)(10 * number + i + 1);
        to[i * PIECE] = 0;
    }
    if (!begin(put))
        return;
    while (ended == number)
        if (shm_advance(tasks[0].port) == 0)
            explore_yield();
    for (int i = 0; i < PIECES && failed == 0; i++)
        REQUIRE(to[i * PIECE] == (char)(10 * number + i + 1));
}

static void copy_all(void)
{
    for (unsigned i = 0; i < COPIES; i++)
        copy_one(i);
    REQUIRE(ended == COPIES);
    atomic_store_explicit(over, true, memory_order_relaxed);
}

static void help(void)
{
    while (!atomic_load_explicit(over, memory_order_relaxed))
        if (shm_advance(tasks[1].port) == 0)
            explore_yield();
}

/* ---- the owner leaves ---- */

static void copy_and_leave(void)
{
    for (int i = 0; i < PIECES; i++)
        near[i * PIECE] = (char)(i + 1);
    REQUIRE(begin(true));
    shm_advance(tasks[0].port);
    joint_close(shm_port_of(tasks[0].port));
    for (int i = 0; i < PIECES; i++)
        near[i * PIECE] = 0;
    atomic_store_explicit(over, true, memory_order_relaxed);
}

/* ---- a guest, or an owner, dies ---- */

static void guest_dies(void)
{
    atomic_store(&tasks[0].device.watched[1], -2);
}

static void copy_one_and_end(void)
{
    REQUIRE(shm_watch_member(shm_port_of(tasks[0].port), 1) == 0);
    copy_one(0);
    REQUIRE(ended == 1);
    for (int i = 0; i < PIECES; i++)
        near[i * PIECE] = 0;
    atomic_store_explicit(over, true, memory_order_relaxed);
}

static void owner_dies(void)
{
    atomic_store_explicit(over, true, memory_order_relaxed);
}

const struct explore_scenario explore_joint[] = {
    {
        .name = "joint: one copy after the other",
        .setup = make_pair,
        .threads = {copy_all, help},
        .bounds = {2, 1, 1},
    },
    {
        .name = "joint: pieces that fail",
        .setup = make_failing,
        .threads = {copy_all, help},
        .bounds = {1, 1, 1},
    },
    {
        .name = "joint: the owner leaves",
        .setup = make_pair,
        .threads = {copy_and_leave, help},
        .bounds = {2, 2, 2},
    },
    {
        .name = "joint: the guest dies",
        .setup = make_pair,
        .threads = {copy_one_and_end, help},
        .mortal = 2,
        .died = guest_dies,
        .bounds = {2, 1, 1},
    },
    {
        .name = "joint: the owner dies",
        .setup = make_pair,
        .threads = {copy_all, help},
        .mortal = 1,
        .died = owner_dies,
        .bounds = {2, 1, 1},
    },
    {.name = NULL},
};
