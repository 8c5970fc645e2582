/*
 * The dispatch table: rows of all ids, apart from one another, and nothing for ids that cannot be.
 *
 * Run: timeout=60
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "context/dispatch.h"

static void some_function(pami_context_t context, void *cookie, const void *header,
                          size_t header_bytes, const void *data, size_t bytes,
                          pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)data, (void)bytes;
    (void)origin, (void)recv;
}

static void nothing_at_first(void **state)
{
    struct dispatch_table table = {.pages = {NULL}};

    (void)state;
    for (size_t id = 0; id <= DISPATCH_ID_MAX; id++) {
        assert_null(dispatch_find(&table, id));
        assert_null(dispatch_registered(&table, id));
    }
    dispatch_table_finish(&table);
}

static void ids_that_cannot_be(void **state)
{
    struct dispatch_table table = {.pages = {NULL}};

    (void)state;
    assert_non_null(dispatch_row(&table, DISPATCH_ID_MAX));
    assert_null(dispatch_find(&table, DISPATCH_ID_MAX + 1));
    assert_null(dispatch_find(&table, 65535));
    assert_null(dispatch_find(&table, SIZE_MAX));
    assert_null(dispatch_registered(&table, SIZE_MAX));
    dispatch_table_finish(&table);
}

static void every_id(void **state)
{
    struct dispatch_table table = {.pages = {NULL}};

    (void)state;
    for (size_t id = 0; id <= DISPATCH_ID_MAX; id++) {
        struct dispatch *row = dispatch_row(&table, id);

        assert_non_null(row);
        assert_null(row->function);
        assert_false(dispatch_has_held(row));
        assert_null(dispatch_registered(&table, id));
        row->cookie = (void *)(id + 1);
        if (id % 3 == 0)
            row->function = some_function;
    }
    for (size_t id = 0; id <= DISPATCH_ID_MAX; id++) {
        struct dispatch *row = dispatch_find(&table, id);

        assert_non_null(row);
        assert_ptr_equal(row, dispatch_row(&table, id));
        assert_ptr_equal(row->cookie, (void *)(id + 1));
        assert_ptr_equal(dispatch_registered(&table, id), id % 3 == 0 ? row : NULL);
    }
    dispatch_table_finish(&table);
}

/* A row keeps its address when others are made: lists of messages are linked to it. */
static void rows_stay(void **state)
{
    struct dispatch_table table = {.pages = {NULL}};
    struct dispatch *first = dispatch_row(&table, 0), *last = dispatch_row(&table, DISPATCH_ID_MAX);
    struct list message;

    (void)state;
    list_init(&first->held);
    assert_false(dispatch_has_held(first));
    list_push_back(&first->held, &message);
    assert_true(dispatch_has_held(first));
    for (size_t id = 0; id <= DISPATCH_ID_MAX; id++)
        assert_non_null(dispatch_row(&table, id));
    assert_ptr_equal(dispatch_find(&table, 0), first);
    assert_ptr_equal(dispatch_find(&table, DISPATCH_ID_MAX), last);
    assert_ptr_equal(list_pop_front(&first->held), &message);
    assert_false(dispatch_has_held(first));
    dispatch_table_finish(&table);
    assert_null(dispatch_find(&table, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_at_first),
        cmocka_unit_test(ids_that_cannot_be),
        cmocka_unit_test(every_id),
        cmocka_unit_test(rows_stay),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
