/*
 * The event loop: one epoll set, one thread.
 *
 * A watch is embedded in whatever waits for its descriptor and must stay where it is until the
 * loop ends, because a batch of events may still name it after it was removed.  Level-triggered.
 */
#ifndef PAMIRUN_LOOP_H
#define PAMIRUN_LOOP_H

#include <stdint.h>

struct watch {
    int fd; /* -1: closed; late events are dropped */
    void (*ready)(struct watch *watch, uint32_t events);
};

struct loop {
    int epoll;
};

/* All return 0 or a negative errno. */
int loop_open(struct loop *loop);
int loop_add(struct loop *loop, struct watch *watch, uint32_t events);
int loop_change(struct loop *loop, struct watch *watch, uint32_t events);
void loop_remove(struct loop *loop, struct watch *watch);

/* Removes the watch and closes its descriptor. */
void loop_close(struct loop *loop, struct watch *watch);

/* Waits for events until `seconds` have passed (negative: for ever) and calls their watches. */
int loop_wait(struct loop *loop, double seconds);

#endif
