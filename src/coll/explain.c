/*
 * Explanations of Auto's choice; see explain.h. The questions are asked by the functions that
 * answer them in earnest, about a group that does not exist.
 */
#include "coll/explain.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "coll/coll.h"
#include "coll/collective.h"
#include "coll/report.h"
#include "coll/shared/arena.h"
#include "coll/shared/shared.h"
#include "device/network.h"
#include "p2p/mover.h"
#include "util/option.h"

#define ELEMENT_BYTES 8 /* of reductions, unless the message is smaller */
#define LINE_BYTES 320

/* What is asked about, in the form in which Auto sees it. */
struct subject {
    struct geometry geometry;
    struct coll_state state;
    struct group group;
    struct collective collective;
    uint64_t bytes;
};

/* ---- questions ---- */

static int refuse(char *why, size_t size, const char *text, const char *reason)
{
    snprintf(why, size, "%s: %s", text, reason);
    return -EINVAL;
}

/* A number without more, for a question's part `part`. */
static bool parse_part(const char *part, uint64_t most, uint64_t *number)
{
    uint64_t high;

    return choice_parse_range(part, most, number, &high) && strchr(part, '-') == NULL;
}

int explain_parse(const char *text, struct explain_question *question, char *why, size_t size)
{
    char parts[4][48];
    uint64_t members, nodes = 1;
    const char *at = text, *nearest;
    unsigned count = 0;
    int type;

    for (;; at++) {
        size_t length = strcspn(at, ":");

        if (count == 4 || length == 0 || length >= sizeof(parts[0]))
            return refuse(why, size, text, "is not TYPE:BYTES:MEMBERS[:NODES]");
        memcpy(parts[count], at, length);
        parts[count++][length] = '\0';
        at += length;
        if (*at == '\0')
            break;
    }
    type = choice_type(parts[0], &nearest);
    if (type < 0) {
        snprintf(why, size, "%s: '%s' is not a type of collective%s%s%s", text, parts[0],
                 nearest != NULL ? "; did you mean " : "", nearest != NULL ? nearest : "",
                 nearest != NULL ? "?" : "");
        return -EINVAL;
    }
    if (count < 3)
        return refuse(why, size, text, "is not TYPE:BYTES:MEMBERS[:NODES]");
    if (!parse_part(parts[1], CHOICE_BYTES_MAX, &question->bytes))
        return refuse(why, size, text, "BYTES is a number such as 8 or 64K");
    if (!parse_part(parts[2], CHOICE_MEMBERS_MAX, &members) || members == 0)
        return refuse(why, size, text, "MEMBERS is a number from 1 to 4294967295");
    if (count == 4 && (!parse_part(parts[3], members, &nodes) || nodes == 0))
        return refuse(why, size, text, "NODES is a number from 1 to that of members");
    question->type = (pami_xfer_type_t)type;
    question->members = (uint32_t)members;
    question->nodes = (uint32_t)nodes;
    question->pretended = option_choice(OPT_NETWORK) == NETWORK_SHM;
    return 0;
}

/* ---- answers ---- */

static void say(explain_print *print, void *cookie, const char *line)
{
    if (print != NULL)
        print(cookie, line);
}

static void make_subject(struct subject *subject, const struct explain_question *question)
{
    memset(subject, 0, sizeof(*subject));
    atomic_init(&subject->geometry.places,
                group_places_like(question->members, question->nodes, !question->pretended));
    subject->group.geometry = &subject->geometry;
    subject->group.state = &subject->state;
    subject->group.size = question->members;
    subject->collective.type = question->type;
    subject->collective.commutative = true;
    subject->collective.bytes = question->bytes;
    subject->collective.element = 1;
    if (collective_is_reduction(question->type) && question->bytes % ELEMENT_BYTES == 0)
        subject->collective.element = ELEMENT_BYTES;
    subject->bytes = question->bytes;
    if (collective_is_vector(question->type))
        subject->bytes = 0;
}

static void say_origin(const struct choice *choice, char *text, size_t size)
{
    if (choice->origin == CHOICE_OPTION)
        snprintf(text, size, "%s", select_option_name(choice->row->type));
    else if (choice->origin == CHOICE_TABLE)
        snprintf(text, size, "table, line %u", choice->line);
    else
        snprintf(text, size, "built in");
}

static void say_range(uint64_t low, uint64_t high, uint64_t most, const char *what, char *text,
                      size_t size)
{
    if (high == most)
        snprintf(text, size, "no: from %" PRIu64 " %s on", low, what);
    else if (low <= 1)
        snprintf(text, size, "no: up to %" PRIu64 " %s", high, what);
    else
        snprintf(text, size, "no: from %" PRIu64 " to %" PRIu64 " %s", low, high, what);
}

static void say_verdict(enum select_verdict verdict, const struct choice *choice,
                        const struct subject *subject, char *text, size_t size)
{
    size_t used;

    switch (verdict) {
    case SELECT_BYTES:
        say_range(choice->bytes_min, choice->bytes_max, CHOICE_BYTES_MAX, "bytes", text, size);
        break;
    case SELECT_MEMBERS:
        say_range(choice->members_min, choice->members_max, CHOICE_MEMBERS_MAX, "members", text,
                  size);
        break;
    case SELECT_NODES:
        snprintf(text, size, "no: for members on %s",
                 choice->nodes == NODES_ONE       ? "one node"
                 : choice->nodes == NODES_SEVERAL ? "several nodes"
                 : choice->nodes == NODES_MEMORY  ? "several nodes that memory joins"
                 : choice->nodes == NODES_PAIRS   ? "several nodes that memory joins, two on each"
                 : choice->nodes == NODES_UNEVEN  ? "several nodes with a network between them, "
                                                    "and no power of two of them"
                                                  : "several nodes with a network between them");
        break;
    case SELECT_NO_MESSAGES:
        snprintf(text, size, "no: not over messages");
        break;
    case SELECT_NEEDS:
        used = (size_t)snprintf(text, size, "no: ");
        report_needs(algorithm_unmet(choice->row, &subject->collective, &subject->group),
                     text + used, size - used);
        break;
    case SELECT_TAKEN:
        snprintf(text, size, "TAKEN: %s", choice->row->description);
        break;
    }
}

/* Why the collective could not run in shared memory, or false. */
static bool has_no_area(const struct subject *subject, char *text, size_t size)
{
    size_t buffer = option_bytes(OPT_COLL_SHARED_BUFFER);
    size_t most = option_bytes(OPT_COLL_SHARED_BYTES);
    size_t bytes = arena_bytes(buffer, subject->group.size);

    if (bytes > most)
        snprintf(text, size, "its area would need %zu bytes; PAMI_COLL_SHARED_BYTES allows %zu",
                 bytes, most);
    else if (buffer / subject->group.size < subject->collective.element)
        snprintf(text, size, "PAMI_COLL_SHARED_BUFFER has no room for so many members");
    else
        return false;
    return true;
}

static const struct algorithm *walk(const struct select_table *table, const struct subject *subject,
                                    bool messages, explain_print *print, void *cookie)
{
    pami_xfer_type_t type = subject->collective.type;

    for (size_t i = table->first[type]; i < table->first[type + 1]; i++) {
        const struct choice *choice = &table->list.choices[i];
        enum select_verdict verdict =
            select_try(choice, &subject->collective, &subject->group, subject->bytes, messages);
        char line[LINE_BYTES], origin[48], text[200];

        say_origin(choice, origin, sizeof(origin));
        say_verdict(verdict, choice, subject, text, sizeof(text));
        snprintf(line, sizeof(line), "  %-24s %-24s %s", origin, choice->row->name, text);
        say(print, cookie, line);
        if (verdict == SELECT_TAKEN)
            return choice->row;
    }
    return NULL;
}

static void say_tree(const struct algorithm *row, const struct subject *subject,
                     explain_print *print, void *cookie)
{
    if (row == NULL || row->make != shared_make || row->tree ||
        !shared_runs_in_tree(row->type, subject->bytes, subject->group.size))
        return;
    say(print, cookie, "  along a tree, where each member has a processor (PAMI_COLL_SHARED_TREE)");
}

/* Is any of it the matter of servers? Of which there are none here. */
static void say_fetched(const struct algorithm *row, explain_print *print, void *cookie)
{
    const char *which = option_string(OPT_SERVERS_FETCH);
    char line[LINE_BYTES];

    if (row == NULL || row->make == shared_make || strcmp(which, "off") == 0)
        return;
    snprintf(line, sizeof(line),
             "  messages of %zu bytes and more: fetched by the program's servers, if it runs any%s "
             "(PAMI_SERVERS_FETCH)",
             MOVER_BYTES, strcmp(which, "learn") == 0 ? ", where that is faster" : "");
    say(print, cookie, line);
}

const struct algorithm *explain(const struct select_table *table,
                                const struct explain_question *question, explain_print *print,
                                void *cookie)
{
    const struct algorithm *row, *first, *other;
    struct subject subject;
    char line[LINE_BYTES], why[160];

    make_subject(&subject, question);
    snprintf(line, sizeof(line),
             "%s, %" PRIu64 " bytes, %u member%s on %u node%s:", collective_name(question->type),
             question->bytes, question->members, question->members == 1 ? "" : "s", question->nodes,
             question->nodes == 1 ? "" : "s");
    say(print, cookie, line);
    row = first = walk(table, &subject, false, print, cookie);
    if (row != NULL && row->make == shared_make && has_no_area(&subject, why, sizeof(why))) {
        snprintf(line, sizeof(line), "  but %s, so over messages:", why);
        say(print, cookie, line);
        row = walk(table, &subject, true, print, cookie);
    }
    say_tree(row, &subject, print, cookie);
    say_fetched(row, print, cookie);
    if (!collective_is_reduction(question->type))
        return row;
    subject.collective.commutative = false;
    other = walk(table, &subject, false, NULL, NULL);
    if (other != NULL && other != first) {
        snprintf(line, sizeof(line), "  with an operator that does not commute: %s", other->name);
        say(print, cookie, line);
    }
    return row;
}
