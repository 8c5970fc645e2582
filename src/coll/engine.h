/*
 * The engine: runs the schedule of an algorithm (schedule.h) on one member, over messages.
 *
 * Phases are taken into a window in order. Their receives are posted in order, as early as they
 * allow; their sends go out in order; they complete in order. So the n-th message between two
 * members in a run is the n-th on both sides, and what is combined is combined in a fixed order,
 * whatever arrives first. A run with W slots looks at W phases at most.
 */
#ifndef LIBPAMI_COLL_ENGINE_H
#define LIBPAMI_COLL_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "coll/algorithm.h"
#include "coll/ask.h"
#include "coll/coll.h"
#include "coll/collective.h"
#include "coll/flight.h"
#include "coll/machine.h"
#include "coll/schedule.h"

/* Phases that are looked at when the algorithm does not say; they are part of the instance. */
#define ENGINE_WINDOW 4u
/* Scratch that is part of the instance. */
#define ENGINE_SMALL 128u

enum slot_flags {
    SLOT_SENT = 1u,     /* nothing to send, or what was sent may be overwritten */
    SLOT_POSTED = 2u,   /* wants a message */
    SLOT_RECEIVED = 4u, /* nothing to receive, or it is there */
    /* The run has failed, and the user's memory must stay: */
    SLOT_READ = 8u,     /* until what was sent has been fetched, or will not be */
    SLOT_WRITTEN = 16u, /* until the device has written what is received */
};

/* A phase under way. */
struct slot {
    struct instance *instance;
    struct receive *receive; /* what is being received, NULL: nothing yet */
    uint32_t from;           /* endpoint */
    uint32_t flags;
    struct phase phase;
};

struct instance {
    struct machine machine;
    struct flight flight;
    struct list link;    /* in coll.running while it runs */
    struct list handed;  /* in coll.handed until its first step */
    struct list copying; /* in coll.aside while a copy goes on: aside.h */
    struct slot *aside;  /* ... of which phase, NULL: none */
    uint64_t copied;     /* ... so far */
    struct coll *coll;
    const struct algorithm *algorithm;
    bool running, stepping, again, failed;
    bool disagrees;   /* failed, because members called with different arguments */
    bool ending;      /* has failed, and its end waits for `held` callbacks */
    bool released;    /* freed when nothing is pending any more */
    uint32_t pending; /* callbacks of p2p that will still come */
    uint32_t held;    /* those among them before which the memory behind must stay */
    uint32_t check;
    struct doubt doubt;
    uint64_t over; /* in levels.nodes: members that will send nothing any more, a bit each */
    pami_result_t result;
    char *text; /* owned: of the failure, while `ending`; or NULL */
    /* Phase numbers, each at most the one before. */
    uint32_t phases, filled, send_next, complete;
    uint32_t recv_next; /* between complete and filled */
    uint32_t mask;      /* slots - 1, a power of two */
    struct slot *slots;
    char *temp;                 /* AREA_TEMP */
    char *scratch;              /* owned: temp and staging that do not fit in `small`, */
    uint64_t scratch_bytes;     /* so much */
    struct area_map send, recv; /* as phases see them: the user's, or staged */
    char *staged_send, *staged_recv;
    struct shape shape;
    struct shape_mark mark;
    struct collective collective;
    _Alignas(16) unsigned char small[ENGINE_SMALL];
    struct slot first_slots[ENGINE_WINDOW];
};

_Static_assert(sizeof(struct instance) <= 4096, "4 KiB per running collective and member");

/* A machine for a schedule; takes *collective over, also on error. 0 or -ENOMEM. */
int engine_make(struct group *group, const struct algorithm *row, struct collective *collective,
                struct machine **machine);

/* A message for a run. False: not now, keep it. `recv` is answered when true. */
bool engine_arrive(struct instance *instance, uint32_t word, const void *data, size_t bytes,
                   uint32_t origin, pami_recv_t *recv);

/* Every run that still wants something from this endpoint fails. */
void engine_gone(struct coll *coll, uint32_t endpoint);

/* At the end of the context: without a word. */
void engine_drop_all(struct coll *coll);

/* ---- between the engine's files ---- */

/* stage.c: scratch for the run, of the sizes that the shape says; 0 or -ENOMEM. */
int stage_prepare(struct instance *instance);
void stage_drop(struct instance *instance);
/* stage.c: copy in what is staged, when the run starts ... */
void stage_begin(struct instance *instance);
/* ... and out when it is complete. */
void stage_end(struct instance *instance);
struct message_place stage_place(const struct instance *instance, const struct span *span);
void stage_local(const struct instance *instance, const struct local *local);
void stage_fill(const struct instance *instance, const struct span *span, const void *data);

/* step.c */
void step(struct instance *instance);
void step_abort(struct instance *instance);
/* Nothing is to go out of or into the user's memory any more; `held` is what cannot be stopped. */
void step_let_go(struct instance *instance);
/* A run that has failed, and still ends: those whose reading holds it up may not have heard it. */
void step_remind(const struct instance *instance);
/* This endpoint will send nothing more. Does the run wait for that, in vain? */
bool step_misses(struct instance *instance, uint32_t endpoint);
/* The run is of those in which a domain has one voice, and sends nothing more to this endpoint. */
bool step_is_silent(const struct instance *instance, uint32_t endpoint);
/* The endpoint that a message of `origin` counts as one of. */
uint32_t step_source(const struct instance *instance, uint32_t origin);
/* It waits for this endpoint to fetch a message. */
bool step_owes(const struct instance *instance, uint32_t endpoint);
/* Calls `tell` for the endpoint of each message that it waits for, to come or to be fetched. */
typedef void step_tell(const struct instance *instance, uint32_t endpoint);
void step_doubts(const struct instance *instance, step_tell *tell);

/* engine.c */
void engine_fail(struct instance *instance, pami_result_t result);
void engine_disagree(struct instance *instance, pami_result_t result);
/* The result, with a text, after a FLIGHT_ABORT. */
pami_result_t engine_aborted(const struct group *group, bool disagrees);
void engine_end(struct instance *instance);
void engine_settle(struct instance *instance);

#endif
