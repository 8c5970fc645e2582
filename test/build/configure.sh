#!/bin/bash
# ./configure writes a config.mk that the Makefile obeys, and the command line still overrides it.
# Run: timeout=180
set -eu

if ! command -v autoconf >/dev/null; then
    echo "SKIP: autoconf is not installed"
    exit 77
fi

top=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset MAKEFLAGS MFLAGS MAKELEVEL CFLAGS CC CXX

fail()
{
    echo "FAILED: $*"
    exit 1
}

cp "$top/Makefile" "$top/configure.ac" "$top/config.mk.in" "$top/pami.pc.in" "$work"
mkdir -p "$work/src/util"
cp "$top/src/util/options.def" "$work/src/util"
cd "$work"
autoconf -Werror || fail "autoconf"
./configure --prefix=/some/where --libdir=/some/where/lib64 CFLAGS='-O1 -g1' >log ||
    { tail -n 40 config.log; fail "configure"; }

# There is no Makefile anywhere else that would read what it writes.
mkdir other
(cd other && ! ../configure >log 2>&1 && grep -q 'make BUILD=DIR' log && [ ! -e config.mk ]) ||
    fail "configure works elsewhere"

# value VARIABLE [MAKE ARGUMENT]...
value()
{
    printf 'include Makefile\nprint:\n\t@echo "$(%s)"\n' "$1" >print.mk
    shift
    make -s -f print.mk print "$@"
}

expect()
{
    local wanted=$1 got
    shift
    got=$(value "$@")
    [ "$got" = "$wanted" ] || fail "$*: $got instead of $wanted"
}

expect /some/where prefix
expect /some/where/bin bindir
expect /some/where/lib64 libdir
expect /some/where/lib64/pkgconfig pkgconfigdir
expect /some/where/share/doc/libpami docdir
expect '-O1 -g1' CFLAGS
expect /else libdir libdir=/else
expect -O0 CFLAGS CFLAGS=-O0
[ -n "$(value HWLOC_LIBS)" ] || fail "hwloc was not found"
[ "$(value VERSION)" = "$(sed -n "s/^PACKAGE_VERSION='\(.*\)'/\1/p" configure)" ] ||
    fail "configure has another version than the Makefile"

rm config.mk
expect /usr/local prefix
expect '-O3 -g' CFLAGS
