/*
 * One question, one answer over the socket PMI_FD, each within a time limit.
 *
 * A channel that has failed stays failed: after a lost or late answer the lines no longer match
 * the questions.  Not thread-safe; the owner locks.
 */
#ifndef LIBPAMI_BOOTSTRAP_PMI1_CHANNEL_H
#define LIBPAMI_BOOTSTRAP_PMI1_CHANNEL_H

#include "bootstrap/pmi1_line.h"

struct pmi1_channel {
    int fd;
    int failed;   /* 0, or the negative errno of the first failure */
    size_t have;  /* bytes in buffer */
    size_t taken; /* of those, the last answer with its newline */
    char buffer[PMI1_LINE_MAX];
};

/*
 * Sends `request` (whole lines with newlines) and waits for a line whose cmd is `expected`.  The
 * answer's slices are good until the next call.
 * -ECONNRESET, -ETIMEDOUT, -EPROTO.  The first failure leaves a text, see bootstrap_fail.
 */
int pmi1_channel_ask(struct pmi1_channel *channel, const char *request, const char *expected,
                     double seconds, struct pmi1_line *answer);

/* Sends without waiting for room or an answer; needs no lock when `text` is one short line. */
void pmi1_channel_tell(const struct pmi1_channel *channel, const char *text);

#endif
