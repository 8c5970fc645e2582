/*
 * The layout table of header_layout.c, seen by a C++ compiler. header_spellings.sh compiles and
 * runs this.
 */
#define _Static_assert static_assert

#include "header_layout.c"
