/*
 * Whether this program can open shared libraries.
 *
 * One that is linked without any (-static, -static-pie) has a C library of its own, and opening a
 * library brings it a second one. glibc lets it, but threads that are made by way of the second one
 * crash the program, and libraries for networks and launchers make threads.
 */
#ifndef LIBPAMI_UTIL_LINKAGE_H
#define LIBPAMI_UTIL_LINKAGE_H

#include <stdbool.h>

/* Looks anew each time. */
bool linkage_opens_libraries(void);

/* The reason, for people, where it does not. */
#define LINKAGE_STATIC "a program that is linked statically cannot open libraries"

#endif
