/*
 * What contexts ask of the reception. All but open, start and close may be called by any thread;
 * none but close and await waits for it.
 */
#ifndef LIBPAMI_DEVICE_OFI_DOOR_H
#define LIBPAMI_DEVICE_OFI_DOOR_H

#include "device/ofi/ofi.h"

int reception_open(struct ofi_device *device, char *card, size_t size, char *why, size_t why_size);
int reception_start(struct reception *reception); /* when the job's key is known */
void reception_close(struct reception *reception);
int reception_ask(struct reception *reception, uint32_t from, uint32_t to, uint32_t as);
int reception_announce(struct reception *reception, uint32_t from, uint32_t to);
void reception_await(struct reception *reception); /* all have heard of what was announced */
void reception_leave(struct reception *reception, struct ofi_farewell *farewell, uint32_t count);
int reception_pulse(struct reception *reception, uint32_t from, uint32_t to, bool answer,
                    const struct ofi_ports *ports); /* NULL: none are given, or asked for */
void reception_cut(struct reception *reception, uint32_t to, uint32_t life);
uint32_t reception_life(struct reception *reception, uint32_t task);
uint32_t reception_revive(struct reception *reception, uint32_t task);
void reception_look_again(struct reception *reception);
void reception_watch(struct reception *reception, struct ofi_slot *slot, bool on);

#endif
