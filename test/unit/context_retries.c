/*
 * What a context tries again in every pass: each entry once and in order, also when all take
 * themselves off and put themselves on again, or one takes off, frees or puts on others.
 *
 * Run: timeout=60
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "context/context.h"

enum {
    ENTRIES = 4
};

struct entry {
    struct retry retry;
    char name;
    struct list *also; /* another entry, for this one to act on */
};

static struct client_core core = {.simulated = true};
static struct context context = {.core = &core};
static struct entry entries[ENTRIES];
static char ran[100];

static struct entry *note(struct retry *retry)
{
    struct entry *entry = list_entry(&retry->link, struct entry, retry.link);
    size_t count = strlen(ran);

    assert_true(count + 1 < sizeof(ran));
    ran[count] = entry->name;
    return entry;
}

static int stay(struct retry *retry, struct context *of)
{
    (void)of;
    note(retry);
    return 1;
}

static int leave(struct retry *retry, struct context *of)
{
    (void)of;
    note(retry);
    list_remove(&retry->link);
    return 1;
}

/* It still owes something when it has run. */
static int owe(struct retry *retry, struct context *of)
{
    note(retry);
    list_remove(&retry->link);
    list_push_back(&of->retries, &retry->link);
    return 1;
}

static int take_off(struct retry *retry, struct context *of)
{
    (void)of;
    list_remove(note(retry)->also);
    return 1;
}

static int put_on(struct retry *retry, struct context *of)
{
    struct list *also = note(retry)->also;

    if (list_empty(also))
        list_push_back(&of->retries, also);
    return 1;
}

static int free_itself(struct retry *retry, struct context *of)
{
    (void)of;
    list_remove(&retry->link);
    free(note(retry));
    return 1;
}

static void add(size_t i, int (*run)(struct retry *retry, struct context *of), size_t also)
{
    entries[i].retry.run = run;
    entries[i].also = &entries[also].retry.link;
    list_push_back(&context.retries, &entries[i].retry.link);
}

static void pass(const char *expected)
{
    memset(ran, 0, sizeof(ran));
    assert_int_equal(context_pass(&context), strlen(expected));
    assert_string_equal(ran, expected);
}

static int prepare(void **state)
{
    (void)state;
    list_init(&context.retries);
    for (size_t i = 0; i < ENTRIES; i++) {
        entries[i].name = (char)('a' + i);
        list_init(&entries[i].retry.link);
    }
    return 0;
}

static void in_order(void **state)
{
    (void)state;
    pass("");
    add(0, stay, 0);
    pass("a");
    add(1, leave, 0);
    add(2, stay, 0);
    pass("abc");
    pass("ac");
}

static void all_owe(void **state)
{
    static const char *const expected[ENTRIES] = {"a", "ab", "abc", "abcd"};

    (void)state;
    for (size_t i = 0; i < ENTRIES; i++) {
        add(i, owe, 0);
        for (size_t passes = 0; passes < 3; passes++)
            pass(expected[i]);
    }
}

static void owing_among_others(void **state)
{
    (void)state;
    add(0, owe, 0);
    add(1, stay, 0);
    add(2, owe, 0);
    add(3, leave, 0);
    pass("abcd");
    pass("abc");
}

/* The next one, the last one, one that has run. */
static void others_go(void **state)
{
    for (size_t i = 1; i < ENTRIES; i++) {
        prepare(state);
        add(0, take_off, i);
        for (size_t j = 1; j < ENTRIES; j++)
            add(j, stay, 0);
        pass(i == 1 ? "acd" : i == 2 ? "abd" : "abc");
    }
    prepare(state);
    add(0, owe, 0);
    add(1, take_off, 0);
    pass("ab");
    pass("b");
}

static void all_go(void **state)
{
    (void)state;
    add(0, take_off, 1);
    add(1, stay, 0);
    pass("a");
    pass("a");
    list_remove(&entries[0].retry.link);
    pass("");
}

/* What is put on has its turn in the next pass, whoever comes behind. */
static void others_come(void **state)
{
    (void)state;
    add(0, put_on, 2);
    pass("a");
    entries[2].retry.run = leave;
    pass("ac");
    list_push_back(&context.retries, &entries[2].retry.link);
    add(1, stay, 0);
    pass("acb");
    pass("ab");
}

static void freed(void **state)
{
    struct entry *entry[2];

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        entry[i] = calloc(1, sizeof(*entry[i]));
        assert_non_null(entry[i]);
        entry[i]->name = (char)('x' + i);
        entry[i]->retry.run = free_itself;
        list_push_back(&context.retries, &entry[i]->retry.link);
    }
    pass("xy");
    pass("");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(in_order, prepare),
        cmocka_unit_test_setup(all_owe, prepare),
        cmocka_unit_test_setup(owing_among_others, prepare),
        cmocka_unit_test_setup(others_go, prepare),
        cmocka_unit_test_setup(all_go, prepare),
        cmocka_unit_test_setup(others_come, prepare),
        cmocka_unit_test_setup(freed, prepare),
    };

    if (completion_queue_init(&context.completions) != 0)
        return 1;
    workqueue_init(&context.work);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
