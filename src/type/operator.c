/*
 * Choosing and running operator loops.
 *
 * The choice of the instruction set is a test of two bits per call rather than a resolver run by
 * the dynamic linker: it works the same in shared and static programs and under sanitizers, and
 * leaves no state.
 */
#include "type/operator_table.h"

#include <errno.h>
#include <string.h>

static const struct operator_table *table(void)
{
#ifdef OPERATOR_HAS_X86_TABLES
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl"))
        return &operator_table_avx512;
    if (__builtin_cpu_supports("avx2"))
        return &operator_table_avx2;
#endif
    return &operator_table_generic;
}

int operator_check(pami_data_function fn, enum type_kind kind)
{
    enum operator_code code = operator_code(fn);

    if (code == OPERATOR_COPY || code == OPERATOR_NOOP || code == OPERATOR_COUNT)
        return 0;
    if (kind >= TYPE_KIND_COUNT || operator_table_generic.loop[code][kind] == NULL)
        return -EINVAL;
    return 0;
}

int operator_apply(pami_data_function fn, enum type_kind kind, void *target, const void *source,
                   size_t bytes)
{
    enum operator_code code = operator_code(fn);

    if (code == OPERATOR_COPY) {
        memmove(target, source, bytes);
        return 0;
    }
    if (code == OPERATOR_NOOP)
        return 0;
    if (code == OPERATOR_COUNT || operator_check(fn, kind) != 0)
        return -EINVAL;
    table()->loop[code][kind](target, source, bytes / type_kind_size(kind));
    return 0;
}
