/*
 * Option registry: typed parsing, ranges, the environment and its warnings.
 *
 * The environment is read once per process, so each such case runs in a child that is given an
 * environment of its own and whose standard error is captured.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/log.h"
#include "util/option.h"
#include "util/option_parse.h"

/* Runs `body` in a child with this environment; its standard error goes to `text`. */
static void in_child(const char *const *environment, void (*body)(void), char *text, size_t room)
{
    int ends[2], status;
    size_t used = 0;
    ssize_t bytes;
    pid_t child;

    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        environ = (char **)(uintptr_t)environment;
        body();
        _exit(0);
    }
    close(ends[1]);
    while (used < room - 1 && (bytes = read(ends[0], text + used, room - 1 - used)) > 0)
        used += (size_t)bytes;
    text[used] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) != 0)
        fail_msg("child ended with status %d: %s", WEXITSTATUS(status), text);
}

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                                \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static unsigned count_lines(const char *text)
{
    unsigned lines = 0;

    for (; *text != '\0'; text++)
        lines += *text == '\n';
    return lines;
}

static int parse(enum option_type type, const char *text, struct option_number *value)
{
    struct option_info info = {.name = "PAMI_X", .unit = "one|two|three", .type = type};

    return option_parse(&info, text, value);
}

static void whole_numbers(void **state)
{
    struct option_number value;

    (void)state;
    assert_int_equal(parse(OPTION_INT, "42", &value), 0);
    assert_int_equal(value.number, 42);
    assert_int_equal(parse(OPTION_INT, " -7 ", &value), 0);
    assert_int_equal(value.number, -7);
    assert_int_equal(parse(OPTION_INT, "0x10", &value), 0);
    assert_int_equal(value.number, 16);
    assert_int_equal(parse(OPTION_INT, "010", &value), 0);
    assert_int_equal(value.number, 10);
    assert_int_equal(parse(OPTION_INT, "", &value), -EINVAL);
    assert_int_equal(parse(OPTION_INT, "4K", &value), -EINVAL);
    assert_int_equal(parse(OPTION_INT, "4 2", &value), -EINVAL);
    assert_int_equal(parse(OPTION_INT, "99999999999999999999", &value), -ERANGE);
    assert_int_equal(value.number, 10);
    assert_int_equal(parse(OPTION_POW2, "64", &value), 0);
    assert_int_equal(parse(OPTION_POW2, "48", &value), -ERANGE);
    assert_int_equal(parse(OPTION_POW2, "0", &value), -ERANGE);
    assert_int_equal(parse(OPTION_POW2, "-4", &value), -ERANGE);
}

static void byte_suffixes(void **state)
{
    static const struct {
        const char *text;
        int64_t bytes;
    } good[] = {
        {"512", 512},       {"8K", 8192},      {"8k", 8192},       {"8KiB", 8192},
        {"16 M", 16 << 20}, {"2G", 2ll << 30}, {"3GB", 3ll << 30}, {"7b", 7},
    };
    static const char *const bad[] = {"K", "8Q", "8KK", "1.5M", "8K 1", "twelve"};
    struct option_number value;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(parse(OPTION_BYTES, good[i].text, &value), 0);
        assert_int_equal(value.number, good[i].bytes);
    }
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(parse(OPTION_BYTES, bad[i], &value), -EINVAL);
    assert_int_equal(parse(OPTION_BYTES, "9223372036854775807G", &value), -ERANGE);
}

static void seconds(void **state)
{
    struct option_number value;

    (void)state;
    assert_int_equal(parse(OPTION_SECONDS, "2", &value), 0);
    assert_true(value.real == 2.0);
    assert_int_equal(parse(OPTION_SECONDS, "1.5s", &value), 0);
    assert_true(value.real == 1.5);
    assert_int_equal(parse(OPTION_SECONDS, "250ms", &value), 0);
    assert_true(value.real == 0.25);
    assert_int_equal(parse(OPTION_SECONDS, "10 us", &value), 0);
    assert_true(value.real > 9.9e-6 && value.real < 10.1e-6);
    assert_int_equal(parse(OPTION_SECONDS, "1h", &value), -EINVAL);
    assert_int_equal(parse(OPTION_SECONDS, "nan", &value), -EINVAL);
    assert_int_equal(parse(OPTION_SECONDS, "inf", &value), -EINVAL);
}

/* Programs may have set a locale, in which a decimal comma stands for the point. */
static void seconds_with_comma(void **state)
{
    struct option_number value;
    int good, bad;

    (void)state;
    if (setlocale(LC_NUMERIC, "de_DE.UTF-8") == NULL)
        skip();
    good = parse(OPTION_SECONDS, "1.5s", &value);
    bad = parse(OPTION_SECONDS, "1,5s", &value);
    setlocale(LC_NUMERIC, "C");
    assert_int_equal(good, 0);
    assert_true(value.real == 1.5);
    assert_int_equal(bad, -EINVAL);
}

static void switches_and_choices(void **state)
{
    static const char *const yes[] = {"yes", "on", "1", "true", "ON", "Yes"};
    static const char *const no[] = {"no", "off", "0", "false", "OFF"};
    struct option_number value;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof yes / sizeof yes[0]; i++) {
        assert_int_equal(parse(OPTION_BOOL, yes[i], &value), 0);
        assert_int_equal(value.number, 1);
    }
    for (i = 0; i < sizeof no / sizeof no[0]; i++) {
        assert_int_equal(parse(OPTION_BOOL, no[i], &value), 0);
        assert_int_equal(value.number, 0);
    }
    assert_int_equal(parse(OPTION_BOOL, "2", &value), -EINVAL);
    assert_int_equal(parse(OPTION_BOOL, "", &value), -EINVAL);
    assert_int_equal(parse(OPTION_CHOICE, "two", &value), 0);
    assert_int_equal(value.number, 1);
    assert_int_equal(parse(OPTION_CHOICE, "THREE", &value), 0);
    assert_int_equal(value.number, 2);
    assert_int_equal(parse(OPTION_CHOICE, "tw", &value), -EINVAL);
    assert_int_equal(parse(OPTION_CHOICE, "", &value), -EINVAL);
    assert_int_equal(parse(OPTION_CHOICE, "one|two", &value), -EINVAL);
}

static void distances(void **state)
{
    (void)state;
    assert_int_equal(option_edit_distance("", ""), 0);
    assert_int_equal(option_edit_distance("abc", ""), 3);
    assert_int_equal(option_edit_distance("kitten", "sitting"), 3);
    assert_int_equal(option_nearest("PAMI_STAT"), OPT_STATS);
    assert_int_equal(option_nearest("PAMI_NUM_CONTEXT"), OPT_NUM_CONTEXTS);
    assert_int_equal(option_nearest("PAMI_RNDV_BYTE"), OPT_RNDV_BYTES);
    assert_int_equal(option_nearest("PAMI_COMPLETELY_DIFFERENT"), -1);
}

/* Defaults parse, are in range, and every row is complete. */
static void table_is_sound(void **state)
{
    int id;

    (void)state;
    for (id = 0; id < OPTION_COUNT; id++) {
        const struct option_info *info = option_info((enum option_id)id);
        struct option_number value;
        char text[256], range[256];

        assert_int_equal(strncmp(info->name, "PAMI_", 5), 0);
        assert_int_equal(option_find(info->name), id);
        assert_false(option_is_foreign(info->name));
        assert_true(strlen(info->description) > 10);
        if (option_parse(info, info->value, &value) != 0)
            fail_msg("default of %s does not parse: %s", info->name, info->value);
        if (info->type != OPTION_STRING) {
            option_number_format(info, &value, text, sizeof text);
            assert_string_equal(text, info->value);
        }
        option_format_range((enum option_id)id, range, sizeof range);
        assert_true(strlen(range) > 0);
    }
}

static void body_defaults(void)
{
    char text[64];

    CHECK(option_int(OPT_NUM_CONTEXTS) == 16);
    CHECK(option_bytes(OPT_SEND_IMMEDIATE_MAX) == 8192);
    CHECK(option_bytes(OPT_RECV_IMMEDIATE_MAX) == 512);
    CHECK(option_bytes(OPT_RNDV_BYTES) == 32768);
    CHECK(option_seconds(OPT_DRAIN_TIMEOUT) == 2.0);
    CHECK(!option_bool(OPT_STATS));
    CHECK(strcmp(option_string(OPT_YIELD), "auto") == 0 && option_choice(OPT_YIELD) == 0);
    CHECK(option_source(OPT_YIELD) == OPTION_FROM_DEFAULT);
    CHECK(strcmp(option_format(OPT_RNDV_BYTES, text, sizeof text), "32K") == 0);
    CHECK(strcmp(option_format_range(OPT_RNDV_BYTES, text, sizeof text), "0 .. 1048576G bytes") ==
          0);
    CHECK(strcmp(option_format_range(OPT_COLL_TABLE, text, sizeof text), "FILE") == 0);
    CHECK(strcmp(option_format_range(OPT_COLL_ASK, text, sizeof text), "1ms .. 1000000 seconds") ==
          0);
}

static void defaults_without_environment(void **state)
{
    const char *environment[] = {"HOME=/", NULL};
    char text[1024];

    (void)state;
    in_child(environment, body_defaults, text, sizeof text);
    assert_string_equal(text, "");
}

static void body_good(void)
{
    char text[64];

    CHECK(option_int(OPT_NUM_CONTEXTS) == 64);
    CHECK(option_bytes(OPT_RNDV_BYTES) == 1 << 20);
    CHECK(option_seconds(OPT_DRAIN_TIMEOUT) == 0.5);
    CHECK(option_bool(OPT_STATS));
    CHECK(strcmp(option_string(OPT_YIELD), "always") == 0);
    CHECK(option_choice(OPT_YIELD) == 1);
    CHECK(option_source(OPT_YIELD) == OPTION_FROM_ENVIRONMENT);
    CHECK(option_source(OPT_SPIN) == OPTION_FROM_DEFAULT);
    CHECK(strcmp(option_format(OPT_DRAIN_TIMEOUT, text, sizeof text), "500ms") == 0);
    CHECK(option_set(OPT_YIELD, "never") == 0 && option_choice(OPT_YIELD) == 2);
    CHECK(option_source(OPT_YIELD) == OPTION_FROM_PROGRAM);
    CHECK(option_set(OPT_YIELD, "perhaps") == -EINVAL && option_choice(OPT_YIELD) == 2);
    CHECK(option_set(OPT_YIELD, NULL) == -EINVAL);
    CHECK(option_set(OPT_LOG, "debug") == 0 && log_enabled(LOG_LEVEL_DEBUG));
}

static void good_values(void **state)
{
    const char *environment[] = {"PAMI_NUM_CONTEXTS=64",     "PAMI_RNDV_BYTES=1M",
                                 "PAMI_DRAIN_TIMEOUT=500ms", "PAMI_STATS=on",
                                 "PAMI_YIELD=Always",        "PAMI_EAGER=64K",
                                 "PAMI_MAX_CONTEXTS=1",      "PAMI_COREONLY_X=1",
                                 "PAMI_BCAST=I0:Binomial",   NULL};
    char text[1024];

    (void)state;
    in_child(environment, body_good, text, sizeof text);
    assert_string_equal(text, "");
}

static void body_bad(void)
{
    CHECK(option_int(OPT_NUM_CONTEXTS) == 16);
    CHECK(option_bytes(OPT_RNDV_BYTES) == 32768);
    CHECK(!option_bool(OPT_STATS));
    CHECK(option_source(OPT_STATS) == OPTION_FROM_DEFAULT);
    /* Once per process. */
    CHECK(option_int(OPT_NUM_CONTEXTS) == 16);
}

static void bad_values_warn_once(void **state)
{
    const char *environment[] = {"PAMI_NUM_CONTEXTS=48", "PAMI_RNDV_BYTES=12Q",
                                 "PAMI_STATS=perhaps",   "PAMI_NUM_CONTEXT=4",
                                 "PAMI_WHATEVER_IT_IS",  NULL};
    char text[4096];

    (void)state;
    in_child(environment, body_bad, text, sizeof text);
    assert_int_equal(count_lines(text), 5);
    assert_non_null(strstr(text, "pami: warn: PAMI_NUM_CONTEXTS=48 is out of range (number: power "
                                 "of two, 2 .. 64 contexts); using the default, 16\n"));
    assert_non_null(strstr(text, "PAMI_RNDV_BYTES=12Q is not a valid value (bytes: 0 .. "));
    assert_non_null(strstr(text, "PAMI_STATS=perhaps is not a valid value (switch: yes|no)"));
    assert_non_null(strstr(text, "PAMI_NUM_CONTEXT is not an option; did you mean "
                                 "PAMI_NUM_CONTEXTS?\n"));
    assert_non_null(strstr(text, "PAMI_WHATEVER_IT_IS is not an option; pami_info lists them\n"));
}

static void other_tasks_are_quiet(void **state)
{
    const char *one[] = {"PAMI_NUM_CONTEXTS=48", "PAMI_STATS=perhaps", "PAMI_RNDV_BYTES=x",
                         "PMI_RANK=1", NULL};
    const char *zero[] = {"PAMI_NUM_CONTEXTS=48", "PAMI_STATS=perhaps", "PAMI_RNDV_BYTES=x",
                          "PMIX_RANK=0", NULL};
    const char *errors[] = {"PAMI_LOG=error", "PAMI_NUM_CONTEXTS=48", NULL};
    char text[4096];

    (void)state;
    in_child(one, body_bad, text, sizeof text);
    assert_string_equal(text, "");
    in_child(zero, body_bad, text, sizeof text);
    assert_int_equal(count_lines(text), 3);
    in_child(errors, body_bad, text, sizeof text);
    assert_string_equal(text, "");
}

static void body_log(void)
{
    log_info("shown %d", 1);
    log_debug("not shown");
    log_set_task(3);
    log_error("of task %s", "three");
}

static void log_lines(void **state)
{
    const char *info[] = {"PAMI_LOG=info", NULL}, *bad[] = {"PAMI_LOG=loud", NULL};
    char text[1024];

    (void)state;
    in_child(info, body_log, text, sizeof text);
    assert_string_equal(text, "pami: info: shown 1\npami[3]: error: of task three\n");
    in_child(bad, body_log, text, sizeof text);
    assert_int_equal(count_lines(text), 2);
    assert_non_null(strstr(text, "PAMI_LOG=loud is not a valid value"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_numbers),
        cmocka_unit_test(byte_suffixes),
        cmocka_unit_test(seconds),
        cmocka_unit_test(seconds_with_comma),
        cmocka_unit_test(switches_and_choices),
        cmocka_unit_test(distances),
        cmocka_unit_test(table_is_sound),
        cmocka_unit_test(defaults_without_environment),
        cmocka_unit_test(good_values),
        cmocka_unit_test(bad_values_warn_once),
        cmocka_unit_test(other_tasks_are_quiet),
        cmocka_unit_test(log_lines),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
