/*
 * lines.h - one-dimensional Fourier transforms of powers of two, several lines at a time.
 */
#ifndef EXAMPLES_FT_LINES_H
#define EXAMPLES_FT_LINES_H

#include <stddef.h>

/* A complex number. */
struct pair {
    double re, im;
};

enum {
    LINES_AT_ONCE = 8
};

/* Roots of unity for one length, and working memory: one user at a time. */
struct lines {
    size_t n;
    struct pair *root;    /* number k: exp(2 pi i k / n), k < n / 2 */
    struct pair *work[2]; /* n rows of LINES_AT_ONCE numbers */
};

/* 0, or -1 when there is no memory. n is a power of two, at least 2. */
int lines_make(struct lines *lines, size_t n);
void lines_free(struct lines *lines);

/*
 * Transforms LINES_AT_ONCE lines in place; not normalized. Element i of line w is data[i * step +
 * w * pitch]. sign is that of the exponent, 1 or -1.
 */
void lines_transform(struct lines *lines, struct pair *data, size_t step, size_t pitch, int sign);

#endif
