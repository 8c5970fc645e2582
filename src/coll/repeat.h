/*
 * Calls that come again: programs repeat themselves, so a collective that has ended well is kept
 * with its arguments read and its algorithm chosen, and starts at once when the same call is made
 * again.
 *
 * Kept are calls whose arguments say all: predefined types only, which stay, and no arrays, which
 * may have changed, but for those of reduce_scatter and allgatherv, which are looked at. What comes
 * once is not kept: the second call is, for the third. Nor are machines with much memory of their
 * own.
 */
#ifndef LIBPAMI_COLL_REPEAT_H
#define LIBPAMI_COLL_REPEAT_H

#include <stdbool.h>
#include <stdint.h>

#include <pami/pami.h>

#define REPEAT_SLOTS 64u
#define REPEAT_WORDS 8u
#define REPEAT_BYTES (UINT64_C(16) << 10) /* kept is what has no more memory than that */

struct coll;
struct coll_operation;
struct collective;
struct group;

/* Where the arguments of a type lie: a root in front, then words, an int behind them. Counted: word
 * 5 points at as many counts as there are members, of the type that word `unit` names; placed: word
 * 6 at as many displacements. */
struct repeat_layout {
    bool kept, rooted, flagged, counted, placed;
    uint8_t words, unit;
};

/* The arguments, word by word. */
struct repeat_key {
    pami_algorithm_t algorithm;
    struct repeat_layout layout;
    uint32_t print; /* of the rest, not 0; 0: is not kept */
    uint32_t root;
    uint32_t flag; /* the int at the end of reductions */
    uint64_t words[REPEAT_WORDS];
    const uint64_t *blocks; /* with counts: bytes for each of so many members, */
    const void *places;     /* allgatherv: displacements, or NULL */
    uint64_t unit;          /* multiples of this */
    uint32_t members;
};

/* Per context. */
struct repeats {
    struct coll_operation *kept[REPEAT_SLOTS]; /* those that do not run */
    uint32_t seen[REPEAT_SLOTS];               /* prints of what came last, and was not there */
};

/* What was kept of the same call, the caller's now, or NULL: then the call has to be checked, and
 * *print is to be given to repeat_note. */
struct coll_operation *repeat_take(struct coll *coll, const pami_xfer_t *cmd, uint32_t *print);

/* The operation is of this call. */
void repeat_note(struct coll_operation *operation, const pami_xfer_t *cmd,
                 const struct collective *collective, uint32_t print);

/* It has ended well. True: it is kept. */
bool repeat_keep(struct coll *coll, struct coll_operation *operation);

/* Those of a group go. */
void repeat_forget(struct coll *coll, const struct group *group);

#endif
