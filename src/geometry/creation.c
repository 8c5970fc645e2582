/*
 * The end of a call to create: the geometry is usable or has failed, and the user's function is due
 * on the context that it was given for, whichever context has seen the last message.
 */
#include <stdlib.h>

#include "geometry/state.h"
#include "util/error.h"

void creation_free(struct creation *creation)
{
    list_remove(&creation->link);
    if (creation->geometry != NULL) {
        atomic_store_explicit(&creation->geometry->creating, false, memory_order_relaxed);
        geometry_drop(creation->geometry);
    }
    if (creation->parent != NULL)
        geometry_drop(creation->parent);
    free(creation);
}

/* Work of the creation's context. */
static pami_result_t creation_done(pami_context_t context, void *cookie)
{
    struct creation *creation = cookie;
    struct creation done = *creation;

    if (done.result == PAMI_SUCCESS && done.geometry != NULL &&
        geometry_attribute(done.geometry, GEOMETRY_OPTIMIZE) != 0)
        geometry_optimise(done.geometry, done.context, true);
    pthread_mutex_lock(&done.client->lock);
    creation_free(creation);
    pthread_mutex_unlock(&done.client->lock);
    if (done.result != PAMI_SUCCESS)
        error_set(done.result, "geometry: a task left before the creation was complete");
    if (done.function != NULL)
        done.function(context, done.cookie, done.result);
    return PAMI_SUCCESS;
}

/* All joins are settled. The creation may be freed. */
void creation_complete(struct creation *creation)
{
    struct context *context = creation->context;

    if (creation->geometry != NULL) {
        if (creation->result == PAMI_SUCCESS)
            geometry_ready(creation->geometry, creation->identity);
        else
            atomic_store_explicit(&creation->geometry->state, GEOMETRY_FAILED,
                                  memory_order_relaxed);
    }
    if (context == NULL) {
        creation_free(creation);
        return;
    }
    PAMI_Context_post(context, &creation->work, creation_done, creation);
}
