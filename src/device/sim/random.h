/*
 * The simulation's random numbers: xoshiro256** (Blackman and Vigna), seeded by splitmix64.
 *
 * Our own, so that a seed means the same run everywhere. One stream per network; whoever draws
 * does so in an order that depends on nothing but the simulation itself.
 */
#ifndef LIBPAMI_DEVICE_SIM_RANDOM_H
#define LIBPAMI_DEVICE_SIM_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

#include "util/hash.h"

struct sim_random {
    uint64_t state[4];
};

/* Also a good mixing function: flips about half of the bits for each bit of `value`. */
static inline uint64_t sim_mix(uint64_t value)
{
    return hash_mix(value + UINT64_C(0x9e3779b97f4a7c15));
}

static inline void sim_random_seed(struct sim_random *random, uint64_t seed)
{
    for (unsigned i = 0; i < 4; i++)
        random->state[i] = sim_mix(seed + i * UINT64_C(0x9e3779b97f4a7c15));
}

static inline uint64_t sim_rotate(uint64_t value, unsigned bits)
{
    return value << bits | value >> (64 - bits);
}

static inline uint64_t sim_random_next(struct sim_random *random)
{
    uint64_t *state = random->state;
    uint64_t result = sim_rotate(state[1] * 5, 7) * 9;
    uint64_t shifted = state[1] << 17;

    state[2] ^= state[0];
    state[3] ^= state[1];
    state[1] ^= state[2];
    state[0] ^= state[3];
    state[2] ^= shifted;
    state[3] = sim_rotate(state[3], 45);
    return result;
}

/* 0 <= result < 1 */
static inline double sim_random_unit(struct sim_random *random)
{
    return (double)(sim_random_next(random) >> 11) * 0x1p-53;
}

/* Nothing is drawn when the answer is certain. */
static inline bool sim_random_chance(struct sim_random *random, double probability)
{
    return probability > 0 && sim_random_unit(random) < probability;
}

/* 0 .. limit, both included; nothing is drawn for 0. */
static inline uint64_t sim_random_up_to(struct sim_random *random, uint64_t limit)
{
    return limit == 0 ? 0 : (uint64_t)(sim_random_unit(random) * (double)(limit + 1));
}

#endif
