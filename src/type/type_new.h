/* How type.c and serial.c make types; nobody else does. */
#ifndef LIBPAMI_TYPE_TYPE_NEW_H
#define LIBPAMI_TYPE_TYPE_NEW_H

#include "type/type.h"

/* A new incomplete type with one reference that takes over the caller's reference on `layout`;
 * NULL: out of memory, the layout is still the caller's. */
struct type *type_new(struct layout *layout);

/* Complete a type whose layout, extent and kind are final. -EINVAL: the atom does not fit. */
int type_freeze(struct type *type, size_t atom);

#endif
