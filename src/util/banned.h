/*
 * Functions that must not compile in library sources: they write without knowing how much room
 * there is, or keep hidden state.  The Makefile includes this file ahead of every file in src/.
 *
 * The headers that declare them come first, so that only uses are caught.  Use snprintf, memcpy
 * with a checked length, and strtok_r instead.
 */
#ifndef LIBPAMI_UTIL_BANNED_H
#define LIBPAMI_UTIL_BANNED_H

#include <stdio.h>
#include <string.h>

#define BANNED(function) this_function_is_banned_##function

#undef strcpy
#define strcpy(to, from) BANNED(strcpy)
#undef strcat
#define strcat(to, from) BANNED(strcat)
#undef sprintf
#define sprintf(...) BANNED(sprintf)
#undef vsprintf
#define vsprintf(...) BANNED(vsprintf)
#undef strtok
#define strtok(text, separators) BANNED(strtok)
#undef gets
#define gets(text) BANNED(gets)

#endif
