/*
 * The node segment among processes of one host: all see the same memory, no two contexts overlap,
 * strangers get nothing, a task that does not come is named in time, a maker that cannot serve says
 * so, and nothing is left behind.
 *
 * The launcher is played by a page that the processes share.
 *
 * Run: timeout=60
 */
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "bootstrap/bootstrap.h"
#include "device/shm/chunk.h"
#include "device/shm/handoff.h"
#include "device/shm/segment.h"
#include "util/option.h"

#define MEMBERS 5u
#define CONTEXTS 4u

/* ---- the launcher ---- */

struct board {
    atomic_uint arrived; /* at fences, over all times */
    char value[256];
};

static struct board *board;
static unsigned fences; /* that this process has been at */
static uint32_t contexts = CONTEXTS;
static uint32_t all[MEMBERS] = {0, 1, 2, 3, 4};

static int board_put(struct bootstrap *bootstrap, const char *key, const char *value)
{
    (void)bootstrap, (void)key;
    snprintf(board->value, sizeof board->value, "%s", value);
    return 0;
}

static int board_get(struct bootstrap *bootstrap, const char *key, char *value, size_t size)
{
    (void)bootstrap, (void)key;
    snprintf(value, size, "%s", board->value);
    return 0;
}

static int board_fence(struct bootstrap *bootstrap)
{
    atomic_fetch_add(&board->arrived, 1);
    fences++;
    while (atomic_load(&board->arrived) < fences * bootstrap->tasks)
        sched_yield();
    return 0;
}

static const struct bootstrap_ops board_ops = {
    .name = "board", .put = board_put, .fence = board_fence, .get = board_get};

static struct bootstrap bootstrap_of(uint32_t task, uint32_t tasks)
{
    return (struct bootstrap){.ops = &board_ops,
                              .task = task,
                              .tasks = tasks,
                              .nodes = 1,
                              .local_tasks = all,
                              .local_count = tasks,
                              .local_index = task,
                              .job = "segment-test"};
}

static int open_segment(uint32_t task, uint32_t tasks, struct segment **segment, char *why,
                        size_t size)
{
    struct bootstrap bootstrap = bootstrap_of(task, tasks);
    struct segment_params params = {
        .bootstrap = &bootstrap,
        .client = "test",
        .members = all,
        .member_count = tasks,
        .self = task,
        .contexts = contexts,
    };

    return segment_open(&params, segment, why, size);
}

static int board_new(void **state)
{
    (void)state;
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    fences = 0;
    return board == MAP_FAILED ? -1 : 0;
}

static int board_remove(void **state)
{
    (void)state;
    return munmap(board, sizeof *board);
}

/* In a child nothing of the test frame may run. */
static void expect(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "segment_join: process %d: %s\n", (int)getpid(), what);
    _exit(1);
}

static pid_t start(void (*function)(uint32_t), uint32_t task)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    function(task);
    _exit(0);
}

static void all_good(const pid_t *pids, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int status;

        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
}

static bool socket_is_left(void)
{
    FILE *file = fopen("/proc/net/unix", "r");
    char line[512];
    bool found = false;

    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL)
        found = found || strstr(line, "@pami-segment-test-") != NULL;
    fclose(file);
    return found;
}

/* ---- one task ---- */

/* Every part is inside, aligned, and apart from all others. */
static void layout(void **state)
{
    struct segment *segment;
    char why[256], *end = NULL;

    (void)state;
    assert_int_equal(open_segment(0, 1, &segment, why, sizeof why), 0);
    end = segment->base + SEGMENT_PAGE;
    for (uint32_t member = 0; member < segment->layout.members; member++) {
        assert_true((char *)segment_member(segment, member) >= end);
        end = (char *)(segment_member(segment, member) + 1);
        for (uint32_t offset = 0; offset < CONTEXTS; offset++) {
            struct inbox *inbox = segment_inbox(segment, member, offset);

            assert_true((char *)inbox >= end);
            assert_int_equal((uintptr_t)inbox % SEGMENT_PAGE, 0);
            end = (char *)&inbox->slots[segment->layout.slots];
            for (uint32_t i = 0; i < segment->layout.lanes; i++) {
                struct lane *lane = segment_lane(segment, member, offset, i);

                assert_true((char *)lane >= end);
                assert_int_equal((uintptr_t)lane % CACHE_LINE, 0);
                end = (char *)(lane + 1);
            }
            for (uint32_t i = 0; i < segment->layout.chunks; i++) {
                struct chunk *chunk = segment_chunk(segment, member, offset, i);

                assert_true((char *)chunk >= end);
                assert_int_equal((uintptr_t)chunk->data % CACHE_LINE, 0);
                end = chunk->data + segment->layout.chunk_bytes;
            }
        }
    }
    assert_true(end <= segment->base + segment->layout.bytes);
    segment_close(segment);
}

/* ---- several tasks ---- */

static void exchange(uint32_t task)
{
    struct bootstrap bootstrap = bootstrap_of(task, MEMBERS);
    struct segment *segment;
    char why[256] = "";

    expect(open_segment(task, MEMBERS, &segment, why, sizeof why) == 0, why);
    expect(segment->self == task && segment->layout.members == MEMBERS, "wrong layout");
    expect(segment_member(segment, task)->pid == getpid(), "not my page");
    for (uint32_t offset = 0; offset < CONTEXTS; offset++) {
        memset(segment_chunk(segment, task, offset, 0)->data, (int)(task * CONTEXTS + offset),
               segment->layout.chunk_bytes);
        atomic_store(&segment_inbox(segment, task, offset)->head, task * 100 + offset);
    }
    board_fence(&bootstrap);
    for (uint32_t member = 0; member < MEMBERS; member++) {
        expect(segment_member(segment, member)->task == member, "a page of another task");
        expect(atomic_load(&segment_member(segment, member)->state) == MEMBER_PRESENT, "absent");
        for (uint32_t offset = 0; offset < CONTEXTS; offset++) {
            const char *data = segment_chunk(segment, member, offset, 0)->data;

            expect(atomic_load(&segment_inbox(segment, member, offset)->head) ==
                       member * 100 + offset,
                   "wrong inbox");
            for (uint32_t i = 0; i < segment->layout.chunk_bytes; i++)
                expect((uint32_t)data[i] == member * CONTEXTS + offset, "wrong chunk");
        }
    }
    board_fence(&bootstrap);
    segment_close(segment);
}

static void several(void **state)
{
    pid_t pids[MEMBERS];

    (void)state;
    for (uint32_t i = 0; i < MEMBERS; i++)
        pids[i] = start(exchange, i);
    all_good(pids, MEMBERS);
    assert_false(socket_is_left());
}

/* Connects to the maker's socket as soon as there is one, and says something else than a member. */
static void be_stranger(uint32_t kind)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const uint32_t words[][2] = {{0, 0}, {0x70616d31, 0}, {0x70616d31, 77}, {UINT32_MAX, 1}};
    char nothing[64] = "";
    size_t length;
    int fd;

    while (atomic_load(&board->arrived) < MEMBERS - 1)
        sched_yield();
    while (board->value[0] == '\0')
        sched_yield();
    length = strlen(board->value);
    memcpy(address.sun_path + 1, board->value, length);
    fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    if (connect(fd, (struct sockaddr *)&address,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)) != 0)
        return; /* too late */
    if (kind < 4)
        send(fd, words[kind], sizeof words[kind], MSG_NOSIGNAL);
    else if (kind == 4)
        send(fd, nothing, sizeof nothing, MSG_NOSIGNAL);
    /* kind 5 hangs up without a word */
    if (kind < 5)
        expect(recv(fd, nothing, sizeof nothing, 0) <= 0, "a stranger was served");
    close(fd);
}

static void strangers(void **state)
{
    pid_t pids[MEMBERS + 6];

    (void)state;
    option_set(OPT_LOG, "error");
    for (uint32_t i = 0; i < 6; i++)
        pids[i] = start(be_stranger, i);
    for (uint32_t i = 0; i < MEMBERS; i++)
        pids[6 + i] = start(exchange, i);
    all_good(pids, MEMBERS + 6);
    assert_false(socket_is_left());
}

/* ---- a task that does not come ---- */

static void come_to_the_fence_only(uint32_t task)
{
    struct bootstrap bootstrap = bootstrap_of(task, 2);

    board_fence(&bootstrap);
}

static void missing(void **state)
{
    struct segment *segment = NULL;
    struct timespec begin, end;
    char why[256] = "";
    pid_t pid;

    (void)state;
    assert_int_equal(option_set(OPT_BOOTSTRAP_TIMEOUT, "0.3"), 0);
    pid = start(come_to_the_fence_only, 1);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    assert_int_equal(open_segment(0, 2, &segment, why, sizeof why), -ETIMEDOUT);
    clock_gettime(CLOCK_MONOTONIC, &end);
    assert_null(segment);
    assert_non_null(strstr(why, "task 1"));
    assert_true(end.tv_sec - begin.tv_sec < 10);
    all_good(&pid, 1);
    assert_false(socket_is_left());
}

static void maker_is_gone(void **state)
{
    struct segment *segment = NULL;
    char why[256] = "";
    pid_t pid;

    (void)state;
    assert_int_equal(option_set(OPT_BOOTSTRAP_TIMEOUT, "0.3"), 0);
    snprintf(board->value, sizeof board->value, "pami-segment-test-nobody-listens");
    pid = start(come_to_the_fence_only, 0);
    assert_true(open_segment(1, 2, &segment, why, sizeof why) < 0);
    assert_null(segment);
    assert_non_null(strstr(why, "task 0"));
    all_good(&pid, 1);
}

/* The maker is stopped, and as many as may wait for it do: nobody else waits for ever. */
static void maker_is_full(void **state)
{
    static const char name[] = "pami-segment-test-full";
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const socklen_t length = offsetof(struct sockaddr_un, sun_path) + sizeof name;
    int listener = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    struct timespec begin, end;
    int waiting[4], fd, count = 0;

    (void)state;
    memcpy(address.sun_path + 1, name, sizeof name - 1);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, length), 0);
    assert_int_equal(listen(listener, 0), 0);
    do {
        assert_true(count < 4);
        waiting[count] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
    } while (connect(waiting[count++], (struct sockaddr *)&address, length) == 0);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    assert_int_equal(handoff_fetch(name, 1, 0.2, &fd), -ETIMEDOUT);
    clock_gettime(CLOCK_MONOTONIC, &end);
    assert_true(end.tv_sec - begin.tv_sec < 10);
    while (count > 0)
        close(waiting[--count]);
    close(listener);
}

/* The maker has descriptors for the file and the listener, and none for who comes. */
static void make_with_few(uint32_t task)
{
    struct segment *segment = NULL;
    char why[256] = "";
    int next = dup(STDERR_FILENO);
    struct rlimit limit = {(rlim_t)next + 2, (rlim_t)next + 2};

    close(next);
    expect(next >= 0 && setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
    expect(open_segment(task, 2, &segment, why, sizeof why) == -EMFILE, "not EMFILE");
    expect(segment == NULL && strstr(why, strerror(EMFILE)) != NULL, why);
}

static void join_nobody(uint32_t task)
{
    struct segment *segment = NULL;
    char why[256] = "";

    expect(open_segment(task, 2, &segment, why, sizeof why) < 0, "joined");
    expect(segment == NULL && strstr(why, "task 0") != NULL, why);
}

static void few_descriptors(void **state)
{
    pid_t pids[2];

    (void)state;
    assert_int_equal(option_set(OPT_BOOTSTRAP_TIMEOUT, "5"), 0);
    pids[0] = start(make_with_few, 0);
    pids[1] = start(join_nobody, 1);
    all_good(pids, 2);
    assert_false(socket_is_left());
}

/* It is at the fence until it is killed, as the other one does not come. */
static void make_and_wait(uint32_t task)
{
    struct segment *segment;
    char why[256];

    open_segment(task, 2, &segment, why, sizeof why);
}

/* Has one for the connection, but none for what comes over it. */
static void join_with_few(uint32_t task)
{
    struct segment *segment = NULL;
    char why[256] = "";
    int next = dup(STDIN_FILENO);
    struct rlimit limit = {(rlim_t)next + 1, (rlim_t)next + 1};

    close(next);
    expect(next >= 0 && setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
    expect(open_segment(task, 2, &segment, why, sizeof why) == -EMFILE, why);
    expect(segment == NULL && strstr(why, strerror(EMFILE)) != NULL, why);
}

static void few_descriptors_to_join(void **state)
{
    pid_t pids[2];

    (void)state;
    assert_int_equal(option_set(OPT_BOOTSTRAP_TIMEOUT, "5"), 0);
    pids[0] = start(make_and_wait, 0);
    pids[1] = start(join_with_few, 1);
    all_good(pids + 1, 1);
    assert_int_equal(kill(pids[0], SIGKILL), 0);
    assert_int_equal(waitpid(pids[0], NULL, 0), pids[0]);
    assert_false(socket_is_left());
}

/* Programs whose options or libraries differ are no members of one job. */
static void join_with_fewer_contexts(uint32_t task)
{
    struct segment *segment = NULL;
    char why[256] = "";

    contexts /= 2;
    expect(open_segment(task, 2, &segment, why, sizeof why) == -EPROTO, why);
    expect(segment == NULL && strstr(why, "PAMI_NUM_CONTEXTS") != NULL, why);
}

static void different_contexts(void **state)
{
    pid_t pids[2];

    (void)state;
    assert_int_equal(option_set(OPT_BOOTSTRAP_TIMEOUT, "5"), 0);
    pids[0] = start(make_and_wait, 0);
    pids[1] = start(join_with_fewer_contexts, 1);
    all_good(pids + 1, 1);
    assert_int_equal(kill(pids[0], SIGKILL), 0);
    assert_int_equal(waitpid(pids[0], NULL, 0), pids[0]);
}

/* ---- a number that is used again ---- */

static void join_and_wait(uint32_t task)
{
    struct segment *segment = NULL;
    char why[256] = "";

    expect(open_segment(task, 2, &segment, why, sizeof why) == 0, why);
    while (atomic_load(&board->arrived) != UINT32_MAX)
        sched_yield();
    close(dup(segment->fd)); /* which gives up the lock */
    pause();
}

static void used_again(void **state)
{
    struct segment *segment = NULL;
    struct segment_member *member;
    struct timespec pause = {.tv_nsec = 50000000}; /* several of the ticks that tell them apart */
    char why[256] = "";
    pid_t pid, stranger;
    int status;

    (void)state;
    pid = start(join_and_wait, 1);
    assert_int_equal(open_segment(0, 2, &segment, why, sizeof why), 0);
    member = segment_member(segment, 1);
    assert_int_equal(member->pid, pid);
    assert_true(member->start != 0);
    assert_false(segment_member_is_other(segment, 1));
    /* Without its lock it is the same one. */
    assert_false(segment_member_ended(segment, 1));
    atomic_store(&board->arrived, UINT32_MAX);
    while (!segment_member_ended(segment, 1))
        sched_yield();
    assert_false(segment_member_is_other(segment, 1));
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(segment_member_ended(segment, 1));
    assert_false(segment_member_is_other(segment, 1)); /* nobody has the number */
    nanosleep(&pause, NULL);
    stranger = fork();
    assert_true(stranger >= 0);
    if (stranger == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        sleep(60);
        _exit(0);
    }
    member->pid = stranger;
    assert_true(segment_member_is_other(segment, 1));
    assert_int_equal(kill(stranger, SIGKILL), 0);
    assert_int_equal(waitpid(stranger, &status, 0), stranger);
    segment_close(segment);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(layout, board_new, board_remove),
        cmocka_unit_test_setup_teardown(several, board_new, board_remove),
        cmocka_unit_test_setup_teardown(strangers, board_new, board_remove),
        cmocka_unit_test_setup_teardown(missing, board_new, board_remove),
        cmocka_unit_test_setup_teardown(maker_is_gone, board_new, board_remove),
        cmocka_unit_test_setup_teardown(maker_is_full, board_new, board_remove),
        cmocka_unit_test_setup_teardown(few_descriptors, board_new, board_remove),
        cmocka_unit_test_setup_teardown(few_descriptors_to_join, board_new, board_remove),
        cmocka_unit_test_setup_teardown(different_contexts, board_new, board_remove),
        cmocka_unit_test_setup_teardown(used_again, board_new, board_remove),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
