/*
 * Random and mutated lines through the parser of tables of choices: no crash, no read outside the
 * input, and what is accepted says the same when it is written and read again.
 *
 *     coll_choice [ROUNDS [SEED]]
 *
 * Best under SANITIZE=address,undefined: every input lives in an allocation of its exact size.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coll/choice.h"
#include "coll/explain.h"
#include "fuzz/rounds.h"

#define LENGTH_MAX 400

static void append(char *text, size_t *length, const char *word)
{
    size_t bytes = strlen(word);

    if (*length + bytes <= LENGTH_MAX) {
        memcpy(text + *length, word, bytes);
        *length += bytes;
    }
}

/* Mostly words in the right places, some noise. */
static size_t make(char *text)
{
    static const char *const words[][8] = {
        {"allreduce", "barrier", "scan", "reduce_scatter", "ALLTOALL", "amreduce", "", "allredcue"},
        {"Ring", "Shared", "4-ing", "linear", "Tree2", "Auto", "Pairwise", "Hierarchical"},
        {"0-", "8", "4K-1M", "5-4", "18446744073709551615", "99999999999999999999", "-", "1G-"},
        {"2-3", "4", "0", "4294967295", "4294967296", "2-", "1K", "x"},
        {"one", "several", "any", "#", "network", "", "ONE", "one more"},
    };
    size_t length = 0;

    for (unsigned i = 0; i < 5 && pick(20) != 0; i++) {
        append(text, &length, words[pick(12) == 0 ? pick(5) : i][pick(8)]);
        append(text, &length, pick(4) == 0 ? ":" : pick(10) == 0 ? "\t \t" : " ");
    }
    for (unsigned i = pick(3); i > 0 && length > 0 && length < LENGTH_MAX; i--)
        text[pick((unsigned)length)] = (char)pick(256);
    return length;
}

static void try_line(const char *line, size_t length)
{
    struct choice choice = {.line = 77}, again;
    char why[200], text[CHOICE_TEXT_MAX];
    int parsed = choice_parse(line, length, &choice, why, sizeof(why));
    size_t bytes;

    CHECK(parsed == 0 || parsed == 1 || parsed == -EINVAL);
    if (parsed < 0)
        for (const char *c = why; *c != '\0'; c++)
            CHECK(*c >= ' ' && *c <= '~');
    if (parsed != 1) {
        CHECK(choice.line == 77 && choice.row == NULL);
        return;
    }
    CHECK(choice.row >= algorithm_table && choice.row < algorithm_table + algorithm_count);
    CHECK(choice.bytes_min <= choice.bytes_max && choice.members_min <= choice.members_max);
    CHECK(choice.members_max != 0 && choice.nodes <= NODES_UNEVEN);
    bytes = choice_format(&choice, pick(2) == 0 ? ':' : ' ', text, sizeof(text));
    CHECK(bytes < sizeof(text));
    CHECK(choice_parse(text, bytes, &again, why, sizeof(why)) == 1);
    CHECK(again.row == choice.row && again.nodes == choice.nodes);
    CHECK(again.bytes_min == choice.bytes_min && again.bytes_max == choice.bytes_max);
    CHECK(again.members_min == choice.members_min && again.members_max == choice.members_max);
}

static void try_question(const char *text)
{
    struct explain_question question;
    char why[200];

    if (explain_parse(text, &question, why, sizeof(why)) == 0)
        CHECK(question.nodes >= 1 && question.nodes <= question.members);
}

int main(int argc, char **argv)
{
    long rounds = rounds_wanted(argc, argv, 200000);
    char text[LENGTH_MAX];

    for (current = 0; current < rounds; current++) {
        size_t length = make(text);
        char *exact = malloc(length + 1);

        CHECK(exact != NULL);
        memcpy(exact, text, length);
        exact[length] = '\0';
        try_question(exact);
        exact = realloc(exact, length + (length == 0));
        CHECK(exact != NULL);
        try_line(exact, length);
        free(exact);
    }
    printf("%ld inputs\n", rounds);
    return 0;
}
