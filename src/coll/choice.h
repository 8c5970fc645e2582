/*
 * Choices: which algorithm for which sizes, members and nodes; lists of them; their text.
 *
 * A line of a table of choices (PAMI_COLL_TABLE, pami_tune) is
 *
 *     TYPE ALGORITHM BYTES MEMBERS [NODES]         # comment
 *     allreduce Rabenseifner 64K- 4-7 one
 *
 * with blanks or colons between its words. BYTES and MEMBERS are ranges LOW-HIGH, LOW- or one
 * number (suffixes K, M, G); NODES is "one", "several", "network" (several, and a network
 * between them), "memory" (several, pretended ones), "pairs" (those, with two members each or fewer
 * on average), "uneven" (network, and members no power of two) or "any", which is also meant
 * without it.
 */
#ifndef LIBPAMI_COLL_CHOICE_H
#define LIBPAMI_COLL_CHOICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coll/algorithm.h"

#define CHOICE_BYTES_MAX UINT64_MAX
#define CHOICE_MEMBERS_MAX UINT32_MAX

/* Longest line of a table; room for the text of a choice with its NUL. */
#define CHOICE_LINE_MAX 255
#define CHOICE_TEXT_MAX 160

enum choice_origin {
    CHOICE_OPTION, /* PAMI_COLL_<TYPE> */
    CHOICE_TABLE,
    CHOICE_BUILT_IN,
};

enum choice_nodes {
    NODES_ANY,
    NODES_ONE,
    NODES_SEVERAL,
    NODES_NETWORK, /* several that are not pretended by a launcher and joined by memory */
    NODES_MEMORY,  /* several that are: a message costs as much as in a node */
    NODES_PAIRS,   /* of those, two members on each or fewer on average */
    NODES_UNEVEN,  /* several with a network between them, and members no power of two */
};

struct choice {
    const struct algorithm *row;
    uint64_t bytes_min, bytes_max; /* of the message or of a block; see select_bytes */
    uint32_t members_min, members_max;
    uint8_t nodes, origin;
    uint32_t line; /* of the table, 0: from elsewhere */
};

/* A zeroed one is empty. */
struct choice_list {
    struct choice *choices;
    size_t count, room;
};

/* 0 or -ENOMEM. */
int choice_add(struct choice_list *list, const struct choice *choice);
void choice_list_finish(struct choice_list *list);

/* "LOW-HIGH", "LOW-" or "NUMBER", nothing above `most`. False: not a range. */
bool choice_parse_range(const char *text, uint64_t most, uint64_t *low, uint64_t *high);

/* A type by its name, or -1; *nearest (may be NULL) is what may have been meant, or NULL. */
int choice_type(const char *name, const char **nearest);

/* The name of the algorithm of a type that looks most like this one; NULL: none does. */
const char *choice_nearest(pami_xfer_type_t type, const char *name);

/* `length` bytes of any contents, a line without its end. 1: *choice is filled in; 0: nothing on
 * it; -EINVAL: makes no sense, *why says why. */
int choice_parse(const char *line, size_t length, struct choice *choice, char *why, size_t size);

/* As a line, with `separator` between the words; the length. */
size_t choice_format(const struct choice *choice, char separator, char *text, size_t size);

#endif
