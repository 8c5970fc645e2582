#!/bin/bash
# Builds cplusplus.cc in the ways programs are built (language versions, position independent or
# not, as Debian links, with the static library) and runs each result as one task and as two.
# Run: timeout=120
# shellcheck disable=SC2086 # a compiler may have arguments
set -eu

if [ -n "${SANITIZE-}" ]; then
    echo "SKIP: programs without the sanitizer cannot use a library built with it"
    exit 77
fi

top=$(cd "$(dirname "$0")/../.." && pwd)
BUILD=${BUILD:-$top/build}
PAMIRUN=${PAMIRUN:-$BUILD/bin/pamirun}
CXX=${CXX:-g++}
PKG_CONFIG=${PKG_CONFIG:-pkg-config}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

source=$top/test/api/cplusplus.cc
common=(-I"$top/include" -Wall -Wextra -Werror -O1)
shared=(-L"$BUILD/lib" -lpami "-Wl,-rpath,$BUILD/lib")
read -r -a hwloc < <("$PKG_CONFIG" --libs hwloc)
static=("$BUILD/lib/libpami.a" "${hwloc[@]}" -pthread -lm -ldl -lrt)

# try NAME FLAG... -- LIBRARY...
try()
{
    local name=$1 flags=()
    shift
    while [ "$1" != -- ]; do
        flags+=("$1")
        shift
    done
    shift
    echo "$name: ${flags[*]}"
    $CXX "${common[@]}" "${flags[@]}" -o "$work/$name" "$source" "$@"
    "$work/$name"
    "$PAMIRUN" -n 2 "$work/$name"
}

try cxx98 -std=c++98 -pedantic -Wno-long-long -- "${shared[@]}"
try cxx11 -std=c++11 -pedantic -- "${shared[@]}"
try cxx17 -std=c++17 -- "${shared[@]}"
try debian -fPIE -pie -Wl,--as-needed -Wl,-z,relro -Wl,-z,now -- "${shared[@]}"
try no_pie -fno-pie -no-pie -- "${shared[@]}"
try no_pie_lazy -fno-pie -no-pie -Wl,-z,lazy -O0 -- "${shared[@]}"
try static_pie -fPIE -pie -- "${static[@]}"
try static_no_pie -fno-pie -no-pie -- "${static[@]}"
