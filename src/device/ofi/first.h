/*
 * Who speaks first over a link, see first.c.
 */
#ifndef LIBPAMI_DEVICE_OFI_FIRST_H
#define LIBPAMI_DEVICE_OFI_FIRST_H

#include "device/ofi/ofi.h"

/* Nothing may be sent over it yet. */
bool ofi_is_mute(const struct ofi_link *link);

/* The other end is known, and may wait for a word of ours. */
void ofi_greet(struct ofi_link *link);

/* Something has come, for the first time. */
void ofi_heard(struct ofi_link *link);

/* Its state is LINK_MUTE, and something is to be sent: it has waited for long enough. */
bool ofi_may_speak(struct ofi_link *link);

#endif
