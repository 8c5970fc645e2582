/*
 * The table of where servers pay: lines, files with lines that make no sense, answers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "servers/model.h"

static int parse(const char *text, struct model_line *line)
{
    char copy[200];

    snprintf(copy, sizeof(copy), "%s", text);
    return model_parse(copy, line);
}

static void lines(void **state)
{
    static const char *const wrong[] = {
        "put",           "put 8",       "put 8 8",      "put 8- 8- 1 1",  "putt 8- 8- 1-",
        "get 9-8 1- 1-", "get 8- x 1-", "get -8 1- 1-", "send 8- 1- 1-x", "8- 1- 1- put",
    };
    struct model_line line;

    (void)state;
    assert_int_equal(parse("put 8-511 64- 2-", &line), 1);
    assert_int_equal(line.kind, REQUEST_PUT);
    assert_true(line.bytes_min == 8 && line.bytes_max == 511);
    assert_true(line.outstanding_min == 64 && line.outstanding_max == UINT64_MAX);
    assert_true(line.servers_min == 2 && line.servers_max == UINT64_MAX);
    assert_int_equal(parse("\tsend 4K- 1 1-3   # 1.2 instead of 1.1\n", &line), 1);
    assert_true(line.kind == REQUEST_SEND && line.bytes_min == 4096);
    assert_int_equal(parse("", &line), 0);
    assert_int_equal(parse("# no: put 8- 8- 1-", &line), 0);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_true(parse(wrong[i], &line) < 0);
}

static void files(void **state)
{
    char path[] = "/tmp/servers_model.XXXXXX";
    int fd = mkstemp(path);
    struct model *model;
    FILE *file;

    (void)state;
    assert_true(fd >= 0);
    file = fdopen(fd, "w");
    assert_non_null(file);
    fprintf(file, "# a table\nput 4K-32K 64- 2-\nnonsense\nget 8 1- 1\n");
    for (int i = 0; i < 400; i++)
        fputc('x', file);
    fprintf(file, " put 1 1 1\nsend 9 9 9 # %*s put 2 2 2\n# %*s\nput 3 3 3", 400, "", 255, "");
    fclose(file);
    assert_int_equal(model_read(path, &model), 0);
    unlink(path);
    assert_non_null(model);
    assert_int_equal(model->count, 4);
    assert_true(model_pays(model, REQUEST_SEND, 9, 9, 9));
    assert_true(model_pays(model, REQUEST_PUT, 3, 3, 3));
    assert_true(model_pays(model, REQUEST_PUT, 4096, 64, 2));
    assert_true(model_pays(model, REQUEST_PUT, 32768, MODEL_ANY, 4));
    assert_false(model_pays(model, REQUEST_PUT, 4096, 63, 2));
    assert_false(model_pays(model, REQUEST_PUT, 4096, 64, 1));
    assert_false(model_pays(model, REQUEST_PUT, 4095, 64, 2));
    assert_false(model_pays(model, REQUEST_SEND, 4096, 64, 2));
    assert_true(model_pays(model, REQUEST_GET, 8, 1, 1));
    assert_false(model_pays(model, REQUEST_IMMEDIATE, 8, 1, 1));
    free(model);
    assert_int_equal(model_read("/nowhere/at/all", &model), 0);
    assert_null(model);
    assert_int_equal(model_read("/tmp", &model), 0);
    assert_null(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lines), cmocka_unit_test(files)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
