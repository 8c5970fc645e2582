/*
 * The buffers that a slot's links send from.
 *
 * All links share them. Those that the provider keeps for a destination which reads nothing do not
 * come back, so the last ones are for links that have none; when even these stay away, there are
 * more.
 */
#ifndef LIBPAMI_DEVICE_OFI_BUFFERS_H
#define LIBPAMI_DEVICE_OFI_BUFFERS_H

#include "device/ofi/ofi.h"

struct ofi_buffer {
    struct ofi_operation operation;
    uint32_t life; /* of the link when it was sent */
    size_t bytes;
    uint32_t packets;
    char *memory;
    void *descriptor; /* of that, for the provider */
};

static inline struct ofi_buffer *ofi_buffer_of(struct ofi_operation *operation)
{
    return (struct ofi_buffer *)(void *)operation;
}

/* So many, of the slot's first. */
int ofi_buffers_make(struct ofi_slot *slot, uint32_t count);
/* The endpoint is closed. */
void ofi_buffers_free(struct ofi_slot *slot);
/* Now and then: more, if all are away and none has come back. */
void ofi_buffers_tend(struct ofi_slot *slot);

/* NULL: the link cannot have one now. */
struct ofi_buffer *ofi_buffer_get(struct ofi_link *link);
/* From the link that got it. */
void ofi_buffer_put(struct ofi_buffer *buffer);

/* link.c: the provider has sent it, or will not. */
void ofi_buffer_done(struct ofi_slot *slot, struct ofi_operation *operation, int error);

#endif
