/*
 * The PMI-1 line parser: fields, numbers, and what it refuses.
 */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bootstrap/pmi1_line.h"

/* Parses a copy that ends where the line ends, so that a sanitizer sees a read beyond it. */
static int parse(const char *text, struct pmi1_line *line)
{
    static char *copy;
    size_t length = strlen(text);

    free(copy);
    copy = malloc(length + (length == 0));
    assert_non_null(copy);
    memcpy(copy, text, length);
    return pmi1_line_parse(copy, length, line);
}

static void test_fields(void **state)
{
    struct pmi1_line line;
    char text[32];

    (void)state;
    assert_int_equal(parse("cmd=put kvsname=k_1 key=a-b value=x=y=", &line), 0);
    assert_int_equal(line.count, 4);
    assert_true(pmi1_line_is(&line, "cmd", "put"));
    assert_false(pmi1_line_is(&line, "cmd", "pu"));
    assert_false(pmi1_line_is(&line, "cmd", "puts"));
    assert_false(pmi1_line_is(&line, "c", "put"));
    assert_int_equal(pmi1_line_text(&line, "value", text, sizeof text), 0);
    assert_string_equal(text, "x=y=");
    assert_int_equal(pmi1_line_text(&line, "key", text, 3), -ENAMETOOLONG);
    assert_int_equal(pmi1_line_text(&line, "key", text, 4), 0);
    assert_string_equal(text, "a-b");
    assert_int_equal(pmi1_line_text(&line, "nothing", text, sizeof text), -ENOENT);
    assert_null(pmi1_line_find(&line, "nothing"));
}

static void test_spaces_and_words(void **state)
{
    struct pmi1_line line;
    char text[32];

    (void)state;
    assert_int_equal(parse("  cmd=get_result  rc=0 msg=not found value= ", &line), 0);
    assert_int_equal(line.count, 5);
    assert_non_null(pmi1_line_find(&line, "found"));
    assert_null(pmi1_line_find(&line, "found")->value);
    assert_int_equal(pmi1_line_text(&line, "found", text, sizeof text), -ENOENT);
    assert_int_equal(pmi1_line_text(&line, "value", text, sizeof text), 0);
    assert_string_equal(text, "");
    assert_true(pmi1_line_is(&line, "value", ""));
}

static void test_first_of_equal_names(void **state)
{
    struct pmi1_line line;

    (void)state;
    assert_int_equal(parse("cmd=a cmd=b", &line), 0);
    assert_true(pmi1_line_is(&line, "cmd", "a"));
    assert_false(pmi1_line_is(&line, "cmd", "b"));
}

static void test_refused(void **state)
{
    static const char *const bad[] = {
        "", " ", "=x", "cmd=a =", "cmd=a\tb=c", "cmd=\x01", "cmd=a\r"};
    struct pmi1_line line;
    char many[PMI1_FIELDS_MAX * 2 + 3];
    size_t i;

    (void)state;
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(parse(bad[i], &line), -EPROTO);
    assert_int_equal(pmi1_line_parse("cmd=a\0b", 7, &line), -EPROTO);
    for (i = 0; i <= PMI1_FIELDS_MAX; i++)
        memcpy(many + 2 * i, "a ", 3);
    assert_int_equal(parse(many, &line), -E2BIG);
    many[PMI1_FIELDS_MAX * 2] = '\0';
    assert_int_equal(parse(many, &line), 0);
    assert_int_equal(line.count, PMI1_FIELDS_MAX);
}

static void test_numbers(void **state)
{
    struct pmi1_line line;
    char text[64];
    long number = 7;

    (void)state;
    assert_int_equal(parse("rc=-1 size=12 none x= y=1a z=+1 big=99999999999999999999", &line), 0);
    assert_int_equal(pmi1_line_number(&line, "rc", -5, 5, &number), 0);
    assert_int_equal(number, -1);
    assert_int_equal(pmi1_line_number(&line, "size", 0, 12, &number), 0);
    assert_int_equal(number, 12);
    assert_int_equal(pmi1_line_number(&line, "size", 0, 11, &number), -ERANGE);
    assert_int_equal(pmi1_line_number(&line, "size", 13, 20, &number), -ERANGE);
    assert_int_equal(pmi1_line_number(&line, "none", 0, 9, &number), -ENOENT);
    assert_int_equal(pmi1_line_number(&line, "absent", 0, 9, &number), -ENOENT);
    assert_int_equal(pmi1_line_number(&line, "x", 0, 9, &number), -EINVAL);
    assert_int_equal(pmi1_line_number(&line, "y", 0, 9, &number), -EINVAL);
    assert_int_equal(pmi1_line_number(&line, "z", 0, 9, &number), -EINVAL);
    assert_int_equal(pmi1_line_number(&line, "big", 0, LONG_MAX, &number), -ERANGE);
    assert_int_equal(number, 12); /* set on success only */
    assert_int_equal(pmi1_number("-", 1, -9, 9, &number), -EINVAL);
    snprintf(text, sizeof text, "%ld", LONG_MIN);
    assert_int_equal(pmi1_number(text, strlen(text), LONG_MIN, LONG_MAX, &number), 0);
    assert_true(number == LONG_MIN);
    snprintf(text, sizeof text, "%ld", LONG_MAX);
    assert_int_equal(pmi1_number(text, strlen(text), LONG_MIN, LONG_MAX, &number), 0);
    assert_true(number == LONG_MAX);
    text[strlen(text) - 1]++;
    assert_int_equal(pmi1_number(text, strlen(text), LONG_MIN, LONG_MAX, &number), -ERANGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields),  cmocka_unit_test(test_spaces_and_words),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_first_of_equal_names),
        cmocka_unit_test(test_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
