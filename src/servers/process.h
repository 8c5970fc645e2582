/*
 * Servers that are processes (process.c), for the other files of this folder. All functions are for
 * the owner of the lane's context.
 */
#ifndef LIBPAMI_SERVERS_PROCESS_H
#define LIBPAMI_SERVERS_PROCESS_H

#include "servers/servers.h"

/* The lane talks to processes. 0, -ENOMEM, -EBUSY: its context does already, in another lane. */
int process_lane(struct lane *lane);

/* What is under way is forgotten; answers to it find nothing. */
void process_lane_end(struct lane *lane);

/*
 * To request->server. 0; -EAGAIN: as many wait there as may; -ESHUTDOWN: servers do not run;
 * -EPIPE: it has died; -ENOTSUP: it cannot carry that, the client has to; -ENOMEM. `ordered`: any
 * data goes along.
 */
int process_put(struct request *request, bool ordered);

/* As PAMIX_Servers_fence and PAMIX_Servers_stop; the state is RUNNING, or WINDING. */
pami_result_t process_fence(struct lane *lane, pami_event_function fn, void *cookie);
pami_result_t process_stop(struct lane *lane, pami_event_function fn, void *cookie);

#endif
