/*
 * Sleeping on an inbox, and being woken by senders.
 *
 * A sender publishes a packet and then looks at `sleeping`; a sleeper sets `sleeping` and then
 * looks for packets. Each needs its store to be visible before its load. The sender's side is the
 * hot one, so it has no fence: the sleeper's arm makes every running thread of all registered
 * processes pass a barrier (membarrier, global expedited), after which a sender either sees the
 * flag, or its packet is seen by the sleeper's last look. Where the kernel has no membarrier,
 * or refuses it to one of the tasks, sleeps are cut short instead; short ones do without, as the
 * barrier interrupts who computes.
 */
#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "device/shm/shm.h"

/* Longest sleep that may have missed its wake-up, us. */
#define BLIND_SLEEP_US 1000u

static long membarrier(int command)
{
    return syscall(SYS_membarrier, command, 0, 0);
}

bool shm_sleep_init(void)
{
    return membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0;
}

void shm_sleep_open(struct shm_port *port)
{
    port->port.sleep_us = port->device->can_barrier ? 0 : BLIND_SLEEP_US;
    port->port.doorbell = &port->reader.inbox->sleeping;
}

void shm_arm(struct port *port, bool light)
{
    struct shm_port *shm = shm_port_of(port);

    atomic_store_explicit(&shm->reader.inbox->sleeping, 1, memory_order_seq_cst);
    if (!light && shm->device->can_barrier)
        membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
}

void shm_disarm(struct port *port)
{
    atomic_store_explicit(&shm_port_of(port)->reader.inbox->sleeping, 0, memory_order_relaxed);
}

void shm_sleep(struct port *port, uint64_t microseconds)
{
    struct shm_port *shm = shm_port_of(port);
    struct timespec limit;

    limit.tv_sec = (time_t)(microseconds / 1000000u);
    limit.tv_nsec = (long)(microseconds % 1000000u) * 1000;
    syscall(SYS_futex, &shm->reader.inbox->sleeping, FUTEX_WAIT, 1, &limit, NULL, 0);
}

void shm_wake_inbox(struct inbox *inbox)
{
    if (atomic_exchange_explicit(&inbox->sleeping, 0, memory_order_relaxed) != 0)
        syscall(SYS_futex, &inbox->sleeping, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void shm_wake(struct port *port)
{
    shm_wake_if_asleep(shm_port_of(port)->reader.inbox);
}
