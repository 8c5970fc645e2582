/*
 * Pacing: when to look into the inbox after a send.
 *
 * In an exchange of short messages the receiver's polling is what makes the sender slow: a line
 * that the other core has just read must first be taken from it again. A sender that owns the next
 * slot already pays one transfer instead of two, provided that the receiver does not look before
 * the answer can be there. So after a send the first look is held back for a few pauses, found by
 * trial: a first look that misses by little asks for one more, a run of first looks that hit tries
 * one less, and where answers come at no steady time there is no hold at all.
 *
 * Measured 2026-11-21 (AMD EPYC, 2 virtual cores of one L3): half round trip of bare slots 76 ns
 * without, 38-48 ns with 2-3 pauses; two-line ping-pong 52 ns.
 */
#ifndef LIBPAMI_DEVICE_SHM_PACING_H
#define LIBPAMI_DEVICE_SHM_PACING_H

#include <stdbool.h>
#include <stdint.h>

#include "util/cpu.h"

/* Longest hold, in pauses: 100 to 200 ns. */
#define HOLD_MOST 8
/* Looks within which an answer counts as "came soon after". */
#define HOLD_LOOKS 24u
/* Weight of a first look that missed against one that hit, and when the sum changes the hold: at
 * rest one first look in five misses. */
#define HOLD_MISS 4
#define HOLD_STEP 16
/* Arrivals without hold after the longest hold has failed, or answers came late. */
#define HOLD_REST 4096u

struct pacing {
    uint64_t sent;        /* packets, before the last look */
    uint32_t sent_before; /* packets, between the look under way and the one before it */
    uint32_t looks;       /* since the first one that missed */
    uint32_t rest;        /* arrivals to let pass before trying to hold again */
    int8_t hold;          /* pauses before the first look after a send */
    int8_t score;         /* first looks that missed, weighted, less those that hit */
    uint8_t late;         /* answers in a row that came late */
    bool waiting;         /* the first look missed and nothing has come since */
};

/* Before a look. `sent`: packets, since the beginning. */
static inline void pacing_before(struct pacing *pacing, uint64_t sent)
{
    pacing->sent_before = (uint32_t)(sent - pacing->sent);
    if (pacing->sent_before == 0)
        return;
    pacing->sent = sent;
    for (int i = 0; i < pacing->hold; i++)
        cpu_relax();
}

static inline void pacing_reset(struct pacing *pacing)
{
    pacing->hold = 0;
    pacing->score = 0;
    pacing->late = 0;
    pacing->rest = HOLD_REST;
}

/* An answer came soon after the first look, or with it. */
static inline void pacing_learn(struct pacing *pacing, int weight)
{
    pacing->late = 0;
    pacing->score = (int8_t)(pacing->score + weight);
    if (pacing->score >= HOLD_STEP) {
        pacing->score = 0;
        if (++pacing->hold > HOLD_MOST)
            pacing_reset(pacing);
    } else if (pacing->score <= -HOLD_STEP) {
        pacing->score = 0;
        if (pacing->hold > 0)
            pacing->hold--;
    }
}

/* Something arrived after looks that missed. */
static inline void pacing_arrived(struct pacing *pacing)
{
    pacing->waiting = false;
    if (pacing->rest != 0)
        pacing->rest--;
    else if (pacing->looks <= HOLD_LOOKS)
        pacing_learn(pacing, HOLD_MISS);
    else if (++pacing->late >= HOLD_STEP)
        pacing_reset(pacing);
}

/* After a look that found something, or not. */
static inline void pacing_after(struct pacing *pacing, bool hit)
{
    if (pacing->sent_before != 0) {
        pacing->looks = 0;
        pacing->waiting = !hit;
        if (hit && pacing->hold != 0)
            pacing_learn(pacing, -1);
    } else if (!hit) {
        pacing->looks++;
    } else if (pacing->waiting) {
        pacing_arrived(pacing);
    }
}

#endif
