/*
 * What the library asks the kernel about memory: may a word be accessed, is it the program's own,
 * where shall pages lie. And moving areas that are large or overlap.
 *
 * Run: timeout=20
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "util/move.h"
#include "util/numa.h"
#include "util/probe.h"

#define PAGE 4096u

static uint64_t variable = 5, zeroed[1000];
static const uint64_t constant = 6;

static char *pages(int protection)
{
    char *at = mmap(NULL, PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(at != MAP_FAILED);
    return at;
}

static void *unmapped(void)
{
    char *at = pages(PROT_READ);

    assert_int_equal(munmap(at, PAGE), 0);
    return at;
}

static void probing(void **state)
{
    void *const nowhere[] = {NULL,
                             (void *)8,
                             unmapped(),
                             pages(PROT_NONE),
                             (void *)(uintptr_t)UINT64_C(0xffff800000000000),
                             (void *)(uintptr_t)UINT64_C(0x1234567812345678)};
    uint64_t local = 7;
    uint64_t *heap = malloc(sizeof *heap);

    (void)state;
    *heap = UINT64_MAX;
    assert_true(probe_writable(&local) && probe_readable(&local));
    assert_true(probe_writable(&variable) && probe_readable(&variable));
    assert_true(probe_writable(heap) && probe_readable(heap));
    assert_true(probe_writable((char *)heap + 4));
    assert_true(local == 7 && variable == 5 && *heap == UINT64_MAX);
    assert_false(probe_writable(pages(PROT_READ)));
    assert_true(probe_readable(pages(PROT_READ)));
    assert_false(probe_writable((void *)(uintptr_t)&constant));
    assert_true(probe_readable(&constant));
    errno = 1234;
    for (size_t i = 0; i < sizeof nowhere / sizeof nowhere[0]; i++) {
        assert_false(probe_writable(nowhere[i]));
        assert_false(probe_readable(nowhere[i]));
    }
    assert_int_equal(errno, 1234);
    free(heap);
}

static bool has(struct probe_range range, const void *address)
{
    return (uintptr_t)address >= range.start && (uintptr_t)address < range.end;
}

/* Everything in the range is writable, and no more than the program's variables are. */
static void program(void **state)
{
    struct probe_range range = probe_program();
    uint64_t local = 0;
    void *heap = malloc(1);

    (void)state;
    assert_true(has(range, &variable) && has(range, &zeroed[0]) && has(range, &zeroed[999]));
    assert_false(has(range, &constant) || has(range, &local) || has(range, heap));
    free(heap);
    assert_false(has(range, (void *)(uintptr_t)program));
    for (uint64_t at = (range.start + 3) / 4 * 4; at < range.end; at += PAGE)
        assert_true(probe_writable((void *)(uintptr_t)at));
}

static void places(void **state)
{
    static const int nodes[] = {NUMA_LOCAL, NUMA_ANY};
    char *at = pages(PROT_READ | PROT_WRITE);
    int first = 0;

    (void)state;
    while (!numa_has_memory((unsigned)first)) {
        first++;
        assert_true(first < 1024);
    }
    assert_false(numa_has_memory(100000));
    assert_false(numa_has_memory(1023) && !numa_is_worthwhile());
    if (numa_place(at, PAGE, first) == -ENOSYS || numa_place(at, PAGE, first) == -EPERM)
        skip(); /* not allowed in here */
    assert_int_equal(numa_place(at, PAGE, first), 0);
    for (size_t i = 0; i < sizeof nodes / sizeof nodes[0]; i++)
        assert_int_equal(numa_place(at, PAGE, nodes[i]), 0);
    *at = 1;
    assert_int_not_equal(numa_place(at, PAGE, 5000), 0);
}

/* As memmove, whatever overlaps. */
static void moving(void **state)
{
    static const size_t sizes[] = {
        0, 1, MOVE_PIECE, MOVE_PIECE + 1, 2 * MOVE_PIECE, 3 * MOVE_PIECE + 77};
    static const size_t ends[] = {0, 1, MOVE_PIECE - 1, MOVE_PIECE, 2 * MOVE_PIECE, 4 * MOVE_PIECE};
    enum {
        AREA = 8 * MOVE_PIECE
    };
    char *area = malloc(AREA), *expected = malloc(AREA);

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (size_t to = 0; to < sizeof ends / sizeof ends[0]; to++)
            for (size_t from = 0; from < sizeof ends / sizeof ends[0]; from++) {
                for (uint32_t at = 0, word = 1; at < AREA; at++, word = word * 1664525 + 1013904223)
                    area[at] = expected[at] = (char)(word >> 24);
                memmove(expected + ends[to], expected + ends[from], sizes[i]);
                move_bytes(area + ends[to], area + ends[from], sizes[i]);
                assert_true(memcmp(area, expected, AREA) == 0);
            }
    free(area);
    free(expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(probing),
        cmocka_unit_test(program),
        cmocka_unit_test(places),
        cmocka_unit_test(moving),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
