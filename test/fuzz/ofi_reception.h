/*
 * In place of the reception (src/device/ofi/reception.c): nobody listens, leaves or dies. Who
 * includes this has a reception_ask of its own.
 */
#ifndef LIBPAMI_FUZZ_OFI_RECEPTION_H
#define LIBPAMI_FUZZ_OFI_RECEPTION_H

#include "device/ofi/door.h"

uint32_t reception_life(struct reception *reception, uint32_t task)
{
    (void)reception, (void)task;
    return 0;
}

int reception_pulse(struct reception *reception, uint32_t from, uint32_t to, bool answer,
                    const struct ofi_ports *ports)
{
    (void)reception, (void)from, (void)to, (void)answer, (void)ports;
    return 0;
}

void reception_cut(struct reception *reception, uint32_t to, uint32_t life)
{
    (void)reception, (void)to, (void)life;
}

uint32_t reception_revive(struct reception *reception, uint32_t task)
{
    return reception_life(reception, task);
}

int reception_announce(struct reception *reception, uint32_t from, uint32_t to)
{
    (void)reception, (void)from, (void)to;
    return 0;
}

void reception_await(struct reception *reception)
{
    (void)reception;
}

void reception_leave(struct reception *reception, struct ofi_farewell *farewell, uint32_t count)
{
    (void)reception, (void)farewell, (void)count;
}

void reception_look_again(struct reception *reception)
{
    (void)reception;
}

void reception_watch(struct reception *reception, struct ofi_slot *slot, bool on)
{
    (void)reception, (void)slot, (void)on;
}

#endif
