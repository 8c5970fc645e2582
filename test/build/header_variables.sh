#!/bin/sh
# The variables of the interface hold their values before any code of the program runs: in static
# initialisers of C++, through copy relocations of a non-PIC program, in a PIE, and linked
# statically.
# Run: timeout=120
# shellcheck disable=SC2086 # a compiler may have arguments
set -u

top=$(cd "$(dirname "$0")/../.." && pwd)
BUILD=${BUILD:-$top/build}
CXX=${CXX:-g++}
[ -z "${SANITIZE:-}" ] || { echo "skip: links without the sanitizer's run-time"; exit 77; }
command -v ${CXX%% *} >/dev/null || { echo "skip: no C++ compiler $CXX"; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0

cat >"$work/variables.cc" <<'END'
#include <pami.h>

#include <cstdio>

static pami_type_t type = PAMI_TYPE_DOUBLE;
static pami_data_function sum = PAMI_DATA_SUM;
struct early {
    pami_endpoint_t endpoint;
    size_t all, size;
    double values[2];
    early() : endpoint(PAMI_ENDPOINT_NULL), all(PAMI_ALL_CONTEXTS), size(0)
    {
        double source[2] = {1, 2};
        pami_configuration_t query;

        query.name = PAMI_TYPE_DATA_SIZE;
        if (PAMI_Type_query(type, &query, 1) == PAMI_SUCCESS)
            size = query.value.intval;
        values[0] = 10;
        values[1] = 20;
        PAMI_Type_transform_data(source, type, 0, values, type, 0, sizeof values, sum, NULL);
    }
};
static early object;

int main()
{
    bool good = object.endpoint == PAMI_ENDPOINT_NULL && object.endpoint == (pami_endpoint_t)-1 &&
                object.all == (size_t)-1 && object.size == sizeof(double) &&
                object.values[0] == 11 && object.values[1] == 22 && PAMI_CLIENT_NULL == NULL &&
                PAMI_TYPE_NULL == NULL && PAMI_DATA_COPY == NULL &&
                type == PAMI_TYPE_DOUBLE && type != PAMI_TYPE_FLOAT;

    std::printf("%s\n", good ? "good" : "bad");
    return good ? 0 : 1;
}
END

# try NAME FLAGS...: compile, link and run
try()
{
    name=$1
    shift
    if ! $CXX -std=c++98 -O1 -I"$top/include" -o "$work/$name" "$work/variables.cc" "$@"; then
        echo "failed: $name does not link"
        failed=1
    elif [ "$("$work/$name")" != good ]; then
        echo "failed: $name"
        failed=1
    fi
}

hwloc=$(pkg-config --libs hwloc 2>/dev/null || echo -lhwloc)
shared="-Wl,--as-needed -L$BUILD/lib -lpami -Wl,-rpath,$BUILD/lib"
static="$BUILD/lib/libpami.a $hwloc -lm -ldl -lrt -pthread"
# shellcheck disable=SC2086
{
    try nonpic -fno-pic -fno-pie -no-pie $shared
    try pie -fPIE -pie $shared
    try static_nonpic -fno-pic -fno-pie -no-pie $static
    try static_pie -fPIE -pie $static
}
exit $failed
