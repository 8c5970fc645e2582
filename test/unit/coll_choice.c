/*
 * Tables of choices: lines, files and their warnings; the order in which Auto looks at choices; and
 * that explanations say what Auto does.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "coll/choice.h"
#include "coll/coll.h"
#include "coll/explain.h"
#include "coll/select.h"
#include "coll/tuned.h"
#include "util/option.h"

static int parse(const char *line, struct choice *choice, char why[200])
{
    return choice_parse(line, strlen(line), choice, why, 200);
}

static void ranges(void **state)
{
    static const struct {
        const char *text;
        uint64_t low, high;
    } good[] = {
        {"0-", 0, UINT64_MAX},
        {"7", 7, 7},
        {"1-4K", 1, 4096},
        {"2k-2K", 2048, 2048},
        {"1M-1G", 1 << 20, 1u << 30},
        {"0-0", 0, 0},
        {"12345-", 12345, UINT64_MAX},
        {"18446744073709551615", UINT64_MAX, UINT64_MAX},
    };
    static const char *const bad[] = {
        "",
        "-",
        "-4",
        "4-2",
        "4--5",
        "4-5-",
        "4Q",
        "K",
        "4 -5",
        "x",
        "0x10",
        "1.5K",
        "+4",
        "18446744073709551616",
        "99999999999G",
        "4-99999999999999999999",
        "16E",
    };
    uint64_t low, high;

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_true(choice_parse_range(good[i].text, UINT64_MAX, &low, &high));
        assert_int_equal(low, good[i].low);
        assert_int_equal(high, good[i].high);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (choice_parse_range(bad[i], UINT64_MAX, &low, &high))
            fail_msg("'%s' is taken for a range", bad[i]);
    assert_false(choice_parse_range("8-17", 16, &low, &high));
    assert_true(choice_parse_range("8-", 16, &low, &high));
    assert_int_equal(high, 16);
}

static void good_lines(void **state)
{
    static const char *const nothing[] = {"", "   ", "# allreduce", " \t# x", ":::", "\r"};
    struct choice choice, again;
    char why[200], text[CHOICE_TEXT_MAX];
    size_t length;

    (void)state;
    assert_int_equal(parse("  AllReduce rabenseifner 64k-\t4-7 one # fast\r", &choice, why), 1);
    assert_int_equal(choice.row->type, PAMI_XFER_ALLREDUCE);
    assert_string_equal(choice.row->name, "Rabenseifner");
    assert_int_equal(choice.bytes_min, 65536);
    assert_int_equal(choice.bytes_max, CHOICE_BYTES_MAX);
    assert_int_equal(choice.members_min, 4);
    assert_int_equal(choice.members_max, 7);
    assert_int_equal(choice.nodes, NODES_ONE);
    length = choice_format(&choice, ':', text, sizeof(text));
    assert_string_equal(text, "allreduce:Rabenseifner:65536-:4-7:one");
    assert_int_equal(choice_parse(text, length, &again, why, sizeof(why)), 1);
    assert_memory_equal(&again, &choice, sizeof(choice));
    assert_int_equal(parse("scan Linear 0 2", &choice, why), 1);
    assert_int_equal(choice.nodes, NODES_ANY);
    for (size_t i = 0; i < sizeof(nothing) / sizeof(nothing[0]); i++)
        assert_int_equal(parse(nothing[i], &choice, why), 0);
}

static void bad_lines(void **state)
{
    static const struct {
        const char *line, *why;
    } bad[] = {
        {"allredcue Ring 0- 2-",
         "'allredcue' is not a type of collective; did you mean allreduce?"},
        {"ambroadcast Auto 0- 2-", "is not a type of collective"},
        {"allreduce Rign 0- 2-", "'Rign' is not an algorithm of allreduce; did you mean Ring?"},
        {"allreduce Zzzzzzzzzz 0- 2-", "'Zzzzzzzzzz' is not an algorithm of allreduce"},
        {"barrier Ring 0- 2-", "is not an algorithm of barrier"},
        {"allreduce Ring 4-2 2-", "'4-2' is not a range of bytes"},
        {"allreduce Ring 0- two", "'two' is not a range of members"},
        {"allreduce Ring 0- 0", "is not a range of members"},
        {"allreduce Ring 0- 4294967296", "is not a range of members"},
        {"allreduce Ring 0- 2- 3",
         "'3' is not one, several, network, memory, pairs, uneven or any"},
        {"allreduce Ring 0-", "is not TYPE ALGORITHM BYTES MEMBERS [NODES]"},
        {"allreduce Ring 0- 2- one more", "is not TYPE ALGORITHM BYTES MEMBERS [NODES]"},
        {"allreduce \x1b[2J\xff 0- 2-", "'?[2J?' is not an algorithm"},
        {"allreduce Ringgggggggggggggggggggggggggggggggggggggggggggggggggggggggggg 0- 2-",
         "is too long"},
    };
    struct choice choice;
    char why[200];

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(parse(bad[i].line, &choice, why), -EINVAL);
        if (strstr(why, bad[i].why) == NULL)
            fail_msg("%s: %s", bad[i].line, why);
    }
}

/* ---- files ---- */

/* Reads a file of this text; what goes to standard error meanwhile is in `said`. */
static int read_text(const char *text, size_t bytes, struct choice_list *list, char *said,
                     size_t room)
{
    char path[] = "/tmp/coll_choice.XXXXXX", caught[] = "/tmp/coll_choice.XXXXXX";
    int fd = mkstemp(path), errors = mkstemp(caught), saved = dup(STDERR_FILENO), result;
    ssize_t got;

    assert_true(fd >= 0 && errors >= 0 && saved >= 0);
    assert_int_equal(write(fd, text, bytes), (ssize_t)bytes);
    close(fd);
    dup2(errors, STDERR_FILENO);
    result = tuned_read(path, list);
    dup2(saved, STDERR_FILENO);
    got = pread(errors, said, room - 1, 0);
    assert_true(got >= 0);
    said[got] = '\0';
    close(errors);
    close(saved);
    unlink(path);
    unlink(caught);
    return result;
}

static void files(void **state)
{
    static const char text[] = "# head\n"
                               "allreduce Ring 1M- 2- one\n"
                               "allreduce Rings 1M- 2- one\n"
                               "\n"
                               "barrier Tree2 0- 8-15"; /* no end */
    struct choice_list list = {NULL, 0, 0};
    char said[4096];
    char *many = malloc(40000);
    size_t used = 0;

    (void)state;
    assert_int_equal(read_text(text, sizeof(text) - 1, &list, said, sizeof(said)), 0);
    assert_int_equal(list.count, 2);
    assert_int_equal(list.choices[0].line, 2);
    assert_int_equal(list.choices[1].line, 5);
    assert_non_null(strstr(said, ":3: 'Rings' is not an algorithm of allreduce; did you mean Ring?;"
                                 " the line is ignored"));
    choice_list_finish(&list);

    assert_non_null(many);
    for (int i = 0; i < 500; i++)
        used += (size_t)snprintf(many + used, 40000 - used, "nonsense %d\n", i);
    assert_int_equal(read_text(many, used, &list, said, sizeof(said)), 0);
    assert_int_equal(list.count, 0);
    assert_non_null(strstr(said, "490 more lines are ignored"));
    free(many);

    assert_int_equal(tuned_read("/nowhere/at/all", &list), -ENOENT);
    assert_int_equal(tuned_read("/dev/null", &list), -EINVAL);
    assert_int_equal(tuned_read("/", &list), -EINVAL);
    assert_int_equal(list.count, 0);
}

/* ---- choosing ---- */

static const char *text_of(char *text, size_t size, const struct select_table *table,
                           const char *question)
{
    struct explain_question q;
    char why[200];
    const struct algorithm *row;

    if (explain_parse(question, &q, why, sizeof(why)) != 0) {
        snprintf(text, size, "%s", why);
        return text;
    }
    row = explain(table, &q, NULL, NULL);
    snprintf(text, size, "%s", row != NULL ? row->name : "none");
    return text;
}

static void order(void **state)
{
    static const char *const lines[] = {"allreduce Ring 1M- 4- one",
                                        "allreduce 4-ing 0-16 4-7 several", "barrier Tree2 0- 6"};
    static const struct {
        const char *question, *answer; /* NULL: as without a table */
    } cases[] = {
        {"allreduce:1M:4", "Ring"}, {"allreduce:1M:2", NULL},  {"allreduce:8:4:2", "4-ing"},
        {"allreduce:8:4", NULL},    {"barrier:0:6", "Tree2"},  {"barrier:0:6:3", "Tree2"},
        {"barrier:0:7", NULL},      {"scan:2M:9", "Linear"},   {"scan:8:9", NULL},
        {"allgather:8:6:2", NULL},  {"allgather:8:8:8", NULL},
    };
    struct choice_list tuned = {NULL, 0, 0};
    struct select_table table, usual;
    char why[200], text[200], other[200];

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct choice choice;

        assert_int_equal(parse(lines[i], &choice, why), 1);
        assert_int_equal(choice_add(&tuned, &choice), 0);
    }
    assert_int_equal(select_table_init(&usual, NULL, true), 0);
    assert_int_equal(option_set(OPT_COLL_SCAN, "Linear:1M-"), 0);
    assert_int_equal(select_table_init(&table, &tuned, true), 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *answer = cases[i].answer;

        if (answer == NULL)
            answer = text_of(other, sizeof(other), &usual, cases[i].question);
        if (strcmp(text_of(text, sizeof(text), &table, cases[i].question), answer) != 0)
            fail_msg("%s: %s instead of %s", cases[i].question, text, answer);
    }
    select_table_finish(&usual);
    select_table_finish(&table);
    choice_list_finish(&tuned);
}

static void questions(void **state)
{
    static const char *const bad[] = {"",
                                      "allreduce",
                                      "allreduce:8",
                                      "allreduce:8:0",
                                      "allreduce:8:4:5",
                                      "allreduce:8:4:0",
                                      "allreduce:8-:4",
                                      "allreduce:8:4:2:1",
                                      "nothing:8:4",
                                      "allreduce::4",
                                      ":8:4",
                                      "allreduce:8:4:",
                                      "allreduce:x:4"};
    struct explain_question question;
    char why[200];

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (explain_parse(bad[i], &question, why, sizeof(why)) != -EINVAL)
            fail_msg("'%s' is taken for a question", bad[i]);
    assert_int_equal(explain_parse("broadcast:64K:32:4", &question, why, sizeof(why)), 0);
    assert_int_equal(question.type, PAMI_XFER_BROADCAST);
    assert_int_equal(question.bytes, 65536);
    assert_int_equal(question.members, 32);
    assert_int_equal(question.nodes, 4);
}

/* A table with the choice that the line means, which reads the same when it is written. */
static void table_of_line(const char *line, enum choice_nodes nodes, struct choice_list *tuned,
                          struct select_table *table)
{
    struct choice choice;
    char why[200], text[CHOICE_TEXT_MAX];

    assert_int_equal(parse(line, &choice, why), 1);
    assert_int_equal(choice.nodes, nodes);
    choice_format(&choice, ' ', text, sizeof(text));
    assert_string_equal(text, line);
    assert_int_equal(choice_add(tuned, &choice), 0);
    assert_int_equal(select_table_init(table, tuned, true), 0);
}

/* What is best between pretended nodes is not where there is a network, and the other way round. */
static void networks(void **state)
{
    static const char line[] = "allreduce Ring 0- 4- network";
    struct explain_question question = {PAMI_XFER_ALLREDUCE, 8, 4, 2, false};
    struct choice_list tuned = {NULL, 0, 0};
    struct select_table table, usual;

    (void)state;
    table_of_line(line, NODES_NETWORK, &tuned, &table);
    assert_int_equal(select_table_init(&usual, NULL, true), 0);
    assert_string_equal(explain(&table, &question, NULL, NULL)->name, "Ring");
    assert_string_equal(explain(&usual, &question, NULL, NULL)->name, "Hierarchical");
    question.pretended = true;
    assert_string_equal(explain(&table, &question, NULL, NULL)->name, "LastSpeaks");
    question.nodes = 1;
    assert_string_equal(explain(&table, &question, NULL, NULL)->name, "Shared");
    select_table_finish(&usual);
    select_table_finish(&table);
    choice_list_finish(&tuned);
}

/* Two members on each node, or fewer on average, not all of them on one, and no network. */
static void pairs(void **state)
{
    static const char line[] = "allreduce Ring 0- 2- pairs";
    struct explain_question question = {PAMI_XFER_ALLREDUCE, 8, 8, 4, true};
    struct choice_list tuned = {NULL, 0, 0};
    struct select_table table;

    (void)state;
    table_of_line(line, NODES_PAIRS, &tuned, &table);
    assert_string_equal(explain(&table, &question, NULL, NULL)->name, "Ring");
    question.nodes = 8;
    assert_string_equal(explain(&table, &question, NULL, NULL)->name, "Ring");
    question.nodes = 3;
    assert_string_equal(explain(&table, &question, NULL, NULL)->name, "LastSpeaks");
    question = (struct explain_question){PAMI_XFER_ALLREDUCE, 8, 8, 4, false};
    assert_string_equal(explain(&table, &question, NULL, NULL)->name, "Hierarchical");
    question = (struct explain_question){PAMI_XFER_ALLREDUCE, 8, 2, 1, true};
    assert_string_equal(explain(&table, &question, NULL, NULL)->name, "Shared");
    select_table_finish(&table);
    choice_list_finish(&tuned);
}

/* One member on each node, as leaders are: short ones go in as few steps as there can be, whatever
 * joins the nodes. */
static void one_on_each(void **state)
{
    static const struct {
        pami_xfer_type_t type;
        const char *name;
    } types[] = {
        {PAMI_XFER_ALLREDUCE, "RecursiveDoubling"},
        {PAMI_XFER_SCAN, "RecursiveDoubling"},
    };
    struct select_table table;

    (void)state;
    assert_int_equal(select_table_init(&table, NULL, true), 0);
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        for (uint32_t members = 3; members <= 8; members++)
            for (int pretended = 0; pretended < 2; pretended++) {
                struct explain_question question = {types[i].type, 8, members, members, pretended};

                assert_string_equal(explain(&table, &question, NULL, NULL)->name, types[i].name);
            }
    select_table_finish(&table);
}

static const char *choice_of(const struct select_table *table, pami_xfer_type_t type,
                             uint64_t bytes, uint32_t members, bool pretended)
{
    struct explain_question question = {type, bytes, members, members, pretended};

    return explain(table, &question, NULL, NULL)->name;
}

/* Counts that are no power of two over a network have rows that need no folding. */
static void uneven(void **state)
{
    static const char line[] = "allreduce Ring 0- 2- uneven";
    struct choice_list tuned = {NULL, 0, 0};
    struct select_table table, usual;

    (void)state;
    table_of_line(line, NODES_UNEVEN, &tuned, &table);
    assert_int_equal(select_table_init(&usual, NULL, true), 0);
    for (uint32_t members = 2; members <= 1024; members++) {
        bool even = (members & (members - 1)) == 0;

        assert_string_equal(choice_of(&table, PAMI_XFER_ALLREDUCE, 1 << 20, members, false),
                            even ? "Rabenseifner" : "Ring");
        assert_string_equal(choice_of(&usual, PAMI_XFER_ALLREDUCE, 1 << 20, members, false),
                            even ? "Rabenseifner" : "Circulant");
        assert_string_equal(choice_of(&usual, PAMI_XFER_REDUCE_SCATTER, 8, members, false),
                            even ? "RecursiveHalving" : "Circulant");
        assert_string_equal(choice_of(&usual, PAMI_XFER_REDUCE, 1 << 20, members, false),
                            members > 16 ? "TwoTrees"
                            : even       ? "Rabenseifner"
                                         : "PipelinedChain");
    }
    assert_string_equal(choice_of(&usual, PAMI_XFER_REDUCE_SCATTER, 8, 7, true),
                        "RecursiveHalving");
    select_table_finish(&usual);
    select_table_finish(&table);
    choice_list_finish(&tuned);
}

/* Large broadcasts to many hosts go down two trees, and reduces up; to few, and where nodes are
 * pretended, not. */
static void two_trees(void **state)
{
    struct explain_question question = {PAMI_XFER_BROADCAST, 1 << 20, 17, 17, false};
    struct select_table table;

    (void)state;
    assert_int_equal(select_table_init(&table, NULL, true), 0);
    assert_string_equal(explain(&table, &question, NULL, NULL)->name, "TwoTrees");
    question.bytes = 64 << 10;
    assert_string_equal(explain(&table, &question, NULL, NULL)->name, "PipelinedBinomial");
    question = (struct explain_question){PAMI_XFER_BROADCAST, 1 << 20, 16, 16, false};
    assert_string_equal(explain(&table, &question, NULL, NULL)->name, "ScatterRing");
    question = (struct explain_question){PAMI_XFER_BROADCAST, 1 << 20, 64, 64, true};
    assert_string_equal(explain(&table, &question, NULL, NULL)->name, "ScatterRing");
    question = (struct explain_question){PAMI_XFER_REDUCE, 256 << 10, 17, 17, false};
    assert_string_equal(explain(&table, &question, NULL, NULL)->name, "TwoTrees");
    question.bytes = 128 << 10;
    assert_string_equal(explain(&table, &question, NULL, NULL)->name, "Rabenseifner");
    select_table_finish(&table);
}

/* Every type, members and nodes: something is taken, and it is what Auto takes. */
static void same_as_auto(void **state)
{
    struct select_table table;

    (void)state;
    assert_int_equal(select_table_init(&table, NULL, true), 0);
    for (int type = 0; type < PAMI_XFER_AMBROADCAST; type++) {
        if (table.first[type] == table.first[type + 1])
            continue;
        for (uint32_t members = 1; members <= 40; members++)
            for (uint32_t nodes = 1; nodes <= members; nodes++)
                for (uint64_t bytes = 0; bytes <= 1 << 24; bytes = bytes * 8 + 8) {
                    struct explain_question question = {(pami_xfer_type_t)type, bytes, members,
                                                        nodes, bytes % 16 == 0};
                    struct geometry geometry = {
                        .places = group_places_like(members, nodes, !question.pretended)};
                    struct coll_state none = {.runs = 0};
                    struct group group = {.geometry = &geometry, .state = &none, .size = members};
                    uint64_t sizes[40];
                    struct collective collective = {.type = question.type,
                                                    .bytes = bytes,
                                                    .element = bytes % 8 == 0 ? 8 : 1,
                                                    .commutative = true,
                                                    .recv_bytes = sizes};

                    for (uint32_t i = 0; i < members; i++)
                        sizes[i] = bytes;
                    assert_ptr_equal(explain(&table, &question, NULL, NULL),
                                     select_row(&table, &group, &collective));
                }
    }
    select_table_finish(&table);
}

/* Whatever the arguments and the members, Auto finds a row: the last one of a type is a schedule
 * that needs nothing. */
static void last_resorts(void **state)
{
    struct select_table table;

    (void)state;
    assert_int_equal(select_table_init(&table, NULL, true), 0);
    for (int type = 0; type < PAMI_XFER_COUNT; type++) {
        const struct choice *last = &table.list.choices[table.first[type + 1] - 1];

        if (choice_type(collective_name((pami_xfer_type_t)type), NULL) < 0)
            continue;
        assert_true(table.first[type] != table.first[type + 1]);
        assert_true(last->row->make == NULL && last->row->needs == 0);
        assert_true(last->nodes == NODES_ANY && last->bytes_min == 0 && last->members_min == 1);
        assert_true(last->bytes_max == CHOICE_BYTES_MAX);
        assert_true(last->members_max == CHOICE_MEMBERS_MAX);
    }
    select_table_finish(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges),       cmocka_unit_test(good_lines),
        cmocka_unit_test(bad_lines),    cmocka_unit_test(files),
        cmocka_unit_test(order),        cmocka_unit_test(questions),
        cmocka_unit_test(networks),     cmocka_unit_test(pairs),
        cmocka_unit_test(one_on_each),  cmocka_unit_test(uneven),
        cmocka_unit_test(two_trees),    cmocka_unit_test(same_as_auto),
        cmocka_unit_test(last_resorts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
