/*
 * The benchmark is specified in: D. Bailey et al., The NAS Parallel Benchmarks, RNR-94-007, 1994.
 *
 * Initial values come from the sequence x' = 5^13 x mod 2^46, divided by 2^46: two numbers for each
 * point. The sums are those that the verification of the NPB's reference programs compares with.
 */
#include "classes.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#define MODULUS (UINT64_C(1) << 46)
#define FACTOR UINT64_C(1220703125)
#define SEED UINT64_C(314159265)
#define DIFFUSION 1e-6

static const struct class classes[] = {
    {'S',
     {64, 64, 64},
     {{5.546087004964e+02, 4.845363331978e+02},
      {5.546385409189e+02, 4.865304269511e+02},
      {5.546148406171e+02, 4.883910722336e+02},
      {5.545423607415e+02, 4.901273169046e+02},
      {5.544255039624e+02, 4.917475857993e+02},
      {5.542683411902e+02, 4.932597244941e+02}}},
    {'W',
     {128, 128, 32},
     {{5.673612178944e+02, 5.293246849175e+02},
      {5.631436885271e+02, 5.282149986629e+02},
      {5.594024089970e+02, 5.270996558037e+02},
      {5.560698047020e+02, 5.260027904925e+02},
      {5.530898991250e+02, 5.249400845633e+02},
      {5.504159734538e+02, 5.239212247086e+02}}},
};

const struct class *class_find(const char *name)
{
    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
        if (name[0] == classes[i].name && name[1] == '\0')
            return &classes[i];
    return NULL;
}

/* The sequence after `steps` steps. */
static uint64_t jump(uint64_t steps)
{
    uint64_t x = SEED, factor = FACTOR;

    for (; steps > 0; steps /= 2, factor = factor * factor % MODULUS)
        if (steps % 2 != 0)
            x = x * factor % MODULUS;
    return x;
}

static double next(uint64_t *x)
{
    *x = *x * FACTOR % MODULUS;
    return (double)*x / (double)MODULUS;
}

void class_fill(struct pair *to, size_t first, size_t count)
{
    uint64_t x = jump(2 * first);

    for (size_t i = 0; i < count; i++) {
        to[i].re = next(&x);
        to[i].im = next(&x);
    }
}

double class_decay(size_t k, size_t n)
{
    const double pi = acos(-1.0);
    double wave = k < n / 2 ? (double)k : (double)k - (double)n;

    return exp(-4 * DIFFUSION * pi * pi * wave * wave);
}

void class_point(const struct class *class, size_t i, size_t at[3])
{
    at[0] = (i + 1) % class->n[0];
    at[1] = 3 * (i + 1) % class->n[1];
    at[2] = 5 * (i + 1) % class->n[2];
}

bool class_agrees(struct pair sum, struct pair published)
{
    return hypot(sum.re - published.re, sum.im - published.im) <=
           1e-12 * hypot(published.re, published.im);
}
