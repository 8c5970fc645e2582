/*
 * classes.h - the problems of the NAS FT benchmark, their data, and the sums that are published.
 */
#ifndef EXAMPLES_FT_CLASSES_H
#define EXAMPLES_FT_CLASSES_H

#include "lines.h"

#include <stdbool.h>

enum {
    CLASS_ITERATIONS = 6,
    CLASS_SUM_POINTS = 1024
};

struct class {
    char name;
    size_t n[3];                       /* points along x, y and z */
    struct pair sum[CLASS_ITERATIONS]; /* after each iteration */
};

/* NULL: there is none of that name. */
const struct class *class_find(const char *name);

/* `count` initial values from the one of point number `first` on, x running fastest. */
void class_fill(struct pair *to, size_t first, size_t count);

/* By how much a mode of index k out of n decays in one iteration. */
double class_decay(size_t k, size_t n);

/* Point number i of those that are summed up. */
void class_point(const struct class *class, size_t i, size_t at[3]);

/* As near to what is published as the benchmark's rules want it. */
bool class_agrees(struct pair sum, struct pair published);

#endif
