/*
 * Control packets of the floors above: a few words of protocol data, in the order of the pair.
 */
#ifndef LIBPAMI_P2P_CONTROL_H
#define LIBPAMI_P2P_CONTROL_H

#include <stdint.h>

#include "context/context.h"

#define CONTROL_WORDS_MAX 13u /* a body of PACKET_SMALL */

/*
 * Send now, or behind what the destination has not taken yet; lost when it goes. Calls nobody back.
 * 0, -EINVAL: no such endpoint, -EPIPE: it has gone, -ENOMEM.
 */
int control_send(struct context *context, uint32_t endpoint, enum packet_protocol protocol,
                 const void *meta, uint32_t words);

/* Hear of it when the endpoint goes (context.on_gone). Results as above. */
int control_watch(struct context *context, uint32_t endpoint);

#endif
