#!/bin/sh
# Every public header compiles alone, in both spellings, in every language a client may use, without
# a warning; and a program that includes them all several times does, too.
# Run: timeout=120
# shellcheck disable=SC2086 # a compiler may have arguments
set -u

top=$(cd "$(dirname "$0")/../.." && pwd)
CC=${CC:-gcc}
CXX=${CXX:-g++}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0

# compile COMPILER LANGUAGE STANDARD FLAGS SOURCE
compile()
{
    # shellcheck disable=SC2086
    if ! $1 -x "$2" -std="$3" -I"$top/include" -Wall -Wextra -Wshadow -Wundef -Werror -pedantic \
        $4 -fsyntax-only "$5"; then
        echo "failed: $1 -std=$3 on $(basename "$5")"
        failed=1
    fi
}

# try SOURCE: in all languages
try()
{
    for standard in gnu89 c99 c11; do
        compile "$CC" c $standard "-fcommon -Wstrict-prototypes -Wmissing-prototypes -Wc++-compat" \
            "$1"
    done
    for standard in c++98 c++11 c++17; do
        compile "$CXX" c++ $standard "" "$1"
    done
}

command -v ${CC%% *} >/dev/null || { echo "skip: no C compiler $CC"; exit 77; }
command -v ${CXX%% *} >/dev/null || { echo "skip: no C++ compiler $CXX"; exit 77; }

for header in pami pami_sys pami_ext_hfi pamix; do
    for spelling in "$header.h" "pami/$header.h"; do
        source=$work/$(echo "$spelling" | tr / _).c
        printf '#include <%s>\nint only_to_be_not_empty;\n' "$spelling" >"$source"
        try "$source"
    done
done

cat >"$work/all.c" <<'END'
#include <pami_sys.h>
static char probe[PAMI_WORK_SIZE_STATIC + PAMI_CLIENT_MEMREGION_SIZE_STATIC];
#include <pami.h>
#include <pami/pami.h>
#include <pami_ext_hfi.h>
#include <pamix.h>
#include <pami/pamix.h>
#ifndef __pami_h__
#error "the include guard is part of the interface"
#endif
static pami_type_t type_at_load_time;
static void event(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context;
    (void)cookie;
    (void)result;
}
int main(void)
{
    pami_send_t send;
    pami_barrier_t barrier;
    (void)barrier;
    send.events.local_fn = event;
    send.events.cookie = PAMI_IN_PLACE;
    type_at_load_time = PAMI_TYPE_BYTE;
    probe[0] = 0;
    return send.events.cookie == NULL || PAMI_DATA_COPY != NULL || probe[0] != 0 ||
           PAMI_Wtimebase(type_at_load_time) == 0;
}
END
try "$work/all.c"

# The layout table holds in C++, too.
if $CXX -std=c++17 -I"$top/include" -Wall -Wextra -Werror -o "$work/layout" \
    "$top/test/build/header_layout.cc"; then
    "$work/layout" || { echo "failed: header_layout.cc"; failed=1; }
else
    failed=1
fi

exit $failed
