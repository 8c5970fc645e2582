/*
 * Compositions: machines made of machines.
 *
 * A chain starts its links one after the other, each from the continuation of the one before. A
 * pipeline starts one machine, or several equal ones, again and again on successive segments, with
 * a bounded number in flight. Both are machines, so they nest; both own what they are made of.
 *
 * All members build the same composition, but for machines of groups they are not members of,
 * which they leave out. When a link fails, what would have followed is given up, so that no other
 * member waits for it.
 */
#ifndef LIBPAMI_COLL_COMPOSE_H
#define LIBPAMI_COLL_COMPOSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "coll/machine.h"
#include "util/error.h"

/* Links run in the order given; `count` may be 0. NULL: out of memory, and the links stay the
 * caller's. `group` is only where the machine belongs to a context. */
struct machine *chain_make(struct group *group, struct machine *const links[], uint32_t count);

/* A chain that has not been started, but for its links. */
void chain_unmake(struct machine *chain);

/* Bind `stage` to segment `index`: a reset. Anything but PAMI_SUCCESS, with a text, ends the
 * pipeline with it. Local. */
typedef pami_result_t pipeline_bind_function(void *cookie, struct machine *stage, uint32_t index);

/*
 * Runs segments 0 .. segments - 1, segment i on stages[i % count], so that at most `count` are in
 * flight. All stages are equal. `bind` is called before each start, also the first. The cookie
 * stays the caller's. NULL: out of memory; the stages stay the caller's as well.
 */
struct machine *pipeline_make(struct group *group, struct machine *const stages[], uint32_t count,
                              uint32_t segments, pipeline_bind_function *bind, void *cookie);

/* Of the stages at most so many are busy. */
void pipeline_set_window(struct machine *pipeline, uint32_t window);

/* Before another start: how many segments. */
void pipeline_set_segments(struct machine *pipeline, uint32_t segments);

/* A link that calls `run`, which neither waits nor fails. The cookie stays the caller's. NULL: out
 * of memory. */
struct machine *act_make(struct group *group, void (*run)(void *cookie), void *cookie);

/* Numbers for the run that begins, unless the composition around has reserved them. */
static inline void compose_number(struct machine *machine)
{
    if (machine->numbers == 0)
        machine->ops->reserve(machine, 1);
    machine->numbers--;
}

/* What is given up after a failure has texts of its own: the one of the failure, for compose_say.
 * NULL: out of memory. */
static inline char *compose_text(void)
{
    char *text = malloc(ERROR_TEXT_MAX);

    if (text != NULL)
        PAMI_Error_text(text, ERROR_TEXT_MAX);
    return text;
}

/* Makes it this thread's again, and frees it. */
static inline void compose_say(pami_result_t result, char *text)
{
    if (text != NULL)
        error_set(result, "%s", text);
    free(text);
}

/* True for a chain or a pipeline that is running. */
static inline bool compose_is_running(struct machine *machine)
{
    return machine->ops->is_running != NULL && machine->ops->is_running(machine);
}

#endif
