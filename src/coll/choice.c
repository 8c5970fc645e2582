/*
 * Choices and their text; see choice.h. Knows nothing of files and jobs.
 */
#include "coll/choice.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "coll/collective.h"
#include "util/option_parse.h"

#define WORD_MAX 48 /* longest word of a line that can mean anything */
#define WORDS 5

static const char *const nodes_words[] = {
    [NODES_ANY] = "any",         [NODES_ONE] = "one",       [NODES_SEVERAL] = "several",
    [NODES_NETWORK] = "network", [NODES_MEMORY] = "memory", [NODES_PAIRS] = "pairs",
    [NODES_UNEVEN] = "uneven",
};

/* ---- lists ---- */

int choice_add(struct choice_list *list, const struct choice *choice)
{
    if (list->count == list->room) {
        size_t room = list->room == 0 ? 32 : 2 * list->room;
        struct choice *more = realloc(list->choices, room * sizeof(*more));

        if (more == NULL)
            return -ENOMEM;
        list->choices = more;
        list->room = room;
    }
    list->choices[list->count++] = *choice;
    return 0;
}

void choice_list_finish(struct choice_list *list)
{
    free(list->choices);
    memset(list, 0, sizeof(*list));
}

/* ---- numbers ---- */

static uint64_t suffix_factor(char suffix)
{
    switch (toupper((unsigned char)suffix)) {
    case 'K':
        return UINT64_C(1) << 10;
    case 'M':
        return UINT64_C(1) << 20;
    case 'G':
        return UINT64_C(1) << 30;
    default:
        return 1;
    }
}

/* A number at *text, which is moved behind it. */
static bool parse_number(const char **text, uint64_t most, uint64_t *number)
{
    const char *at = *text;
    uint64_t value = 0, factor;

    if (!isdigit((unsigned char)*at))
        return false;
    for (; isdigit((unsigned char)*at); at++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value))
            return false;
    factor = suffix_factor(*at);
    if (factor != 1)
        at++;
    if (__builtin_mul_overflow(value, factor, &value) || value > most)
        return false;
    *text = at;
    *number = value;
    return true;
}

bool choice_parse_range(const char *text, uint64_t most, uint64_t *low, uint64_t *high)
{
    if (!parse_number(&text, most, low))
        return false;
    *high = *low;
    if (*text == '\0')
        return true;
    if (*text++ != '-')
        return false;
    *high = most;
    if (*text == '\0')
        return true;
    return parse_number(&text, most, high) && *text == '\0' && *low <= *high;
}

/* ---- names ---- */

/* How much of a name may be different for it to have been meant. */
static unsigned tolerance(const char *name)
{
    return (unsigned)strlen(name) / 3 + 2;
}

/* The edit distance of two names, whatever their case. */
static unsigned distance(const char *name, const char *other)
{
    char small[2][WORD_MAX + 1];

    for (int i = 0; i < 2; i++) {
        const char *from = i == 0 ? name : other;
        size_t length = strnlen(from, WORD_MAX);

        for (size_t k = 0; k < length; k++)
            small[i][k] = (char)tolower((unsigned char)from[k]);
        small[i][length] = '\0';
    }
    return option_edit_distance(small[0], small[1]);
}

static bool has_rows(pami_xfer_type_t type)
{
    for (size_t i = 0; i < algorithm_count; i++)
        if (algorithm_table[i].type == type)
            return true;
    return false;
}

int choice_type(const char *name, const char **nearest)
{
    unsigned least = tolerance(name);
    const char *best = NULL;

    for (int type = 0; type < PAMI_XFER_COUNT; type++) {
        const char *other = collective_name((pami_xfer_type_t)type);
        unsigned far;

        if (!has_rows((pami_xfer_type_t)type))
            continue;
        if (strcasecmp(name, other) == 0)
            return type;
        far = distance(name, other);
        if (far < least) {
            least = far;
            best = other;
        }
    }
    if (nearest != NULL)
        *nearest = best;
    return -1;
}

const char *choice_nearest(pami_xfer_type_t type, const char *name)
{
    unsigned least = tolerance(name);
    const char *best = NULL;

    for (size_t i = 0; i < algorithm_count; i++) {
        const struct algorithm *row = &algorithm_table[i];
        unsigned far = row->type == type ? distance(name, row->name) : least;

        if (far < least) {
            least = far;
            best = row->name;
        }
    }
    return best;
}

/* ---- lines ---- */

struct words {
    char text[WORDS][WORD_MAX + 1];
    size_t count; /* WORDS + 1: too many */
    bool too_long;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == ':' || c == '\r';
}

/* What cannot be shown becomes a question mark: reasons are for people. */
static void split(const char *line, size_t length, struct words *words)
{
    size_t at = 0;

    memset(words, 0, sizeof(*words));
    for (;;) {
        size_t used = 0;

        while (at < length && is_blank(line[at]))
            at++;
        if (at == length || line[at] == '#' || words->count > WORDS)
            return;
        for (; at < length && !is_blank(line[at]) && line[at] != '#'; at++) {
            if (used < WORD_MAX && words->count < WORDS)
                words->text[words->count][used] = isgraph((unsigned char)line[at]) ? line[at] : '?';
            used++;
        }
        words->too_long |= used > WORD_MAX;
        words->count++;
    }
}

static int refuse_name(const char *name, const char *what, const char *nearest, char *why,
                       size_t size)
{
    if (nearest != NULL)
        snprintf(why, size, "'%s' is not %s; did you mean %s?", name, what, nearest);
    else
        snprintf(why, size, "'%s' is not %s", name, what);
    return -EINVAL;
}

static int parse_names(const struct words *words, struct choice *choice, char *why, size_t size)
{
    const char *nearest;
    char what[64];
    int type = choice_type(words->text[0], &nearest);

    if (type < 0)
        return refuse_name(words->text[0], "a type of collective", nearest, why, size);
    choice->row = algorithm_find((pami_xfer_type_t)type, words->text[1]);
    if (choice->row != NULL)
        return 0;
    snprintf(what, sizeof(what), "an algorithm of %s", collective_name((pami_xfer_type_t)type));
    return refuse_name(words->text[1], what, choice_nearest((pami_xfer_type_t)type, words->text[1]),
                       why, size);
}

static int parse_ranges(const struct words *words, struct choice *choice, char *why, size_t size)
{
    uint64_t low, high;

    if (!choice_parse_range(words->text[2], CHOICE_BYTES_MAX, &choice->bytes_min,
                            &choice->bytes_max)) {
        snprintf(why, size, "'%s' is not a range of bytes such as 0-4K or 64K-", words->text[2]);
        return -EINVAL;
    }
    if (!choice_parse_range(words->text[3], CHOICE_MEMBERS_MAX, &low, &high) || high == 0) {
        snprintf(why, size, "'%s' is not a range of members such as 2-7 or 8-", words->text[3]);
        return -EINVAL;
    }
    choice->members_min = (uint32_t)low;
    choice->members_max = (uint32_t)high;
    choice->nodes = NODES_ANY;
    if (words->count < 5)
        return 0;
    for (uint8_t i = 0; i < sizeof(nodes_words) / sizeof(nodes_words[0]); i++)
        if (strcasecmp(words->text[4], nodes_words[i]) == 0) {
            choice->nodes = i;
            return 0;
        }
    return refuse_name(words->text[4],
                       "one, several, network, memory, pairs, uneven or any (nodes)", NULL, why,
                       size);
}

int choice_parse(const char *line, size_t length, struct choice *choice, char *why, size_t size)
{
    struct choice parsed = {.origin = CHOICE_TABLE};
    struct words words;

    split(line, length, &words);
    if (words.count == 0)
        return 0;
    if (words.count < 4 || words.count > WORDS) {
        snprintf(why, size, "is not TYPE ALGORITHM BYTES MEMBERS [NODES]");
        return -EINVAL;
    }
    if (words.too_long || length > CHOICE_LINE_MAX) {
        snprintf(why, size, "is too long");
        return -EINVAL;
    }
    if (parse_names(&words, &parsed, why, size) != 0 ||
        parse_ranges(&words, &parsed, why, size) != 0)
        return -EINVAL;
    *choice = parsed;
    return 1;
}

/* ---- and back ---- */

static void format_range(uint64_t low, uint64_t high, uint64_t most, char *text, size_t size)
{
    if (high == most)
        snprintf(text, size, "%" PRIu64 "-", low);
    else if (low == high)
        snprintf(text, size, "%" PRIu64, low);
    else
        snprintf(text, size, "%" PRIu64 "-%" PRIu64, low, high);
}

size_t choice_format(const struct choice *choice, char separator, char *text, size_t size)
{
    char bytes[48], members[32];

    format_range(choice->bytes_min, choice->bytes_max, CHOICE_BYTES_MAX, bytes, sizeof(bytes));
    format_range(choice->members_min, choice->members_max, CHOICE_MEMBERS_MAX, members,
                 sizeof(members));
    return (size_t)snprintf(text, size, "%s%c%s%c%s%c%s%c%s", collective_name(choice->row->type),
                            separator, choice->row->name, separator, bytes, separator, members,
                            separator, nodes_words[choice->nodes]);
}
