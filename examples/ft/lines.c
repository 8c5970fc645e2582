/*
 * Stockham's form of the fast Fourier transform: each stage halves the lines' length and doubles
 * their number, from one array into another, and no bits need be reversed at the end. The elements
 * of several lines lie side by side, so that the innermost loop runs over consecutive memory in
 * every stage.
 */
#include "lines.h"

#include <math.h>
#include <stdlib.h>

int lines_make(struct lines *lines, size_t n)
{
    const double circle = 2 * acos(-1.0);
    size_t numbers = n * LINES_AT_ONCE;

    lines->n = n;
    lines->root = malloc((n / 2 + 2 * numbers) * sizeof(struct pair));
    if (lines->root == NULL)
        return -1;
    lines->work[0] = lines->root + n / 2;
    lines->work[1] = lines->work[0] + numbers;
    for (size_t k = 0; k < n / 2; k++) {
        double angle = circle * (double)k / (double)n;

        lines->root[k] = (struct pair){cos(angle), sin(angle)};
    }
    return 0;
}

void lines_free(struct lines *lines)
{
    free(lines->root);
}

/* Elements p and p + half become elements 2p and 2p + 1 of twice as many lines; `run` numbers, of
 * all lines, make one element. */
static void stage(const struct lines *lines, const struct pair *restrict from,
                  struct pair *restrict to, size_t half, size_t run, double sign)
{
    for (size_t p = 0; p < half; p++) {
        const struct pair *low = from + p * run, *high = low + half * run;
        struct pair *even = to + 2 * p * run, *odd = even + run;
        double re = lines->root[p * (run / LINES_AT_ONCE)].re;
        double im = lines->root[p * (run / LINES_AT_ONCE)].im * sign;

        for (size_t i = 0; i < run; i++) {
            double x = low[i].re - high[i].re, y = low[i].im - high[i].im;

            even[i].re = low[i].re + high[i].re;
            even[i].im = low[i].im + high[i].im;
            odd[i].re = x * re - y * im;
            odd[i].im = x * im + y * re;
        }
    }
}

void lines_transform(struct lines *lines, struct pair *data, size_t step, size_t pitch, int sign)
{
    struct pair *from = lines->work[0], *to = lines->work[1];
    size_t run = LINES_AT_ONCE;

    for (size_t i = 0; i < lines->n; i++)
        for (size_t w = 0; w < LINES_AT_ONCE; w++)
            from[i * LINES_AT_ONCE + w] = data[i * step + w * pitch];
    for (size_t half = lines->n / 2; half > 0; half /= 2, run *= 2) {
        struct pair *result = to;

        stage(lines, from, to, half, run, sign);
        to = from;
        from = result;
    }
    for (size_t i = 0; i < lines->n; i++)
        for (size_t w = 0; w < LINES_AT_ONCE; w++)
            data[i * step + w * pitch] = from[i * LINES_AT_ONCE + w];
}
