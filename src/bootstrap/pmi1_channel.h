/*
 * One question, one answer over the socket to the launcher, each within a time limit.
 *
 * A channel that has failed stays failed: after a lost or late answer the lines no longer match
 * the questions.  Others use the socket before and after us, and an MPI library that ends closes
 * it: what has its number then is left alone.  Not thread-safe; the owner locks.
 */
#ifndef LIBPAMI_BOOTSTRAP_PMI1_CHANNEL_H
#define LIBPAMI_BOOTSTRAP_PMI1_CHANNEL_H

#include <stdbool.h>
#include <sys/types.h>

#include "bootstrap/pmi1_line.h"

struct pmi1_channel {
    int fd;
    dev_t device; /* of what fd was at the start, as fstat has it */
    ino_t inode;
    double seconds;    /* for one answer ... */
    const char *limit; /* ... and what sets them, for messages */
    int failed;        /* 0, or the negative errno of the first failure */
    size_t have;       /* bytes in buffer */
    size_t taken;      /* of those, the last answer with its newline */
    char buffer[PMI1_LINE_MAX];
};

/* Opens the channel at "host:port", within its time. As pmi1_channel_ask. */
int pmi1_channel_dial(struct pmi1_channel *channel, const char *address);

/*
 * Sends `request` (whole lines with newlines) and waits for a line whose cmd is `expected`.  The
 * answer's slices are good until the next call.
 * -EBADF, -ECONNRESET, -ETIMEDOUT, -EPROTO.  The first failure leaves a text, see bootstrap_fail.
 */
int pmi1_channel_ask(struct pmi1_channel *channel, const char *request, const char *expected,
                     struct pmi1_line *answer);

/* What the launcher says without being asked, behind the answer to `request`. */
int pmi1_channel_next(struct pmi1_channel *channel, const char *request, const char *expected,
                      struct pmi1_line *line);

/* False: somebody has closed the socket. */
bool pmi1_channel_is_open(const struct pmi1_channel *channel);

/* Sends without waiting for room or an answer; needs no lock when `text` is one short line. */
void pmi1_channel_tell(const struct pmi1_channel *channel, const char *text);

#endif
