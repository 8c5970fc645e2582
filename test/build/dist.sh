#!/bin/bash
# The source archive is complete: the library and the launcher build from it, also where libfabric
# is missing, and the two-command entry points are there.
# Run: timeout=240
set -eu

top=$(cd "$(dirname "$0")/../.." && pwd)
if [ -n "${SANITIZE-}" ]; then
    echo "SKIP: says nothing new with sanitizers"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset MAKEFLAGS MFLAGS MAKELEVEL BUILD

make -s -C "$top" dist BUILD="$work/dist"
tar -xzf "$work"/dist/libpami-*.tar.gz -C "$work"
cd "$work"/libpami-*
for file in Makefile README.md LICENSE configure.ac test/tap scripts/demo.sh; do
    [ -f "$file" ] || { echo "FAILED: $file is not in the archive"; exit 1; }
done
[ ! -e build ] || { echo "FAILED: build products are in the archive"; exit 1; }
make -s -j2 CFLAGS=-O0 FABRIC_LIBS= lib tools >"$work/said"
grep 'pami-ofi.so: libfabric is missing' "$work/said" ||
    { echo "FAILED: nothing is said about libfabric"; exit 1; }
[ -x build/bin/pamirun ] && [ -f build/lib/libpami.so.0 ]

# A tree that was built and then moved, or copied, is used from where it is now.
mv "$PWD" "$work/moved"
cd "$work/moved"
make -s CFLAGS=-O0 FABRIC_LIBS= lib >"$work/said"
! grep CC "$work/said" && grep -q "^prefix=$(pwd -P)/build\$" build/lib/pkgconfig/pami.pc ||
    { echo "FAILED: a tree that was moved names another place"; exit 1; }

# A name with a blank in it would be taken for two.
refuses()
{
    ! make -n "$@" >"$work/shown" 2>&1 && grep -q 'has blanks\|with blanks' "$work/shown" ||
        { echo "FAILED: make $*, with a blank: $(tail -n 1 "$work/shown")"; exit 1; }
}
mkdir "$work/a blank"
cp Makefile "$work/a blank"
refuses lib BUILD="$work/a blank"
refuses -C "$work/a blank" check

# What tests cannot be built without is no reason for all to fail.
make -n tests FABRIC_LIBS= CMOCKA_LIBS= >"$work/shown"
! grep -E 'lcmocka|test/fuzz/ofi_|test/unit/util_' "$work/shown" ||
    { echo "FAILED: tests that cannot be built would be"; exit 1; }
grep -q 'test/unit: cmocka is missing' "$work/shown" && grep -q 'test/api/put' "$work/shown"

# Flags that are given come beside those that a program needs, and leave objects fit for libraries.
make -n tests CMOCKA_LIBS=-lcmocka CFLAGS=-fPIE LDFLAGS=-Wl,-z,now >"$work/shown"
grep -q -e '-z,now .*-Wl,--wrap=.*-o build/test/unit/explore' "$work/shown" ||
    { echo "FAILED: LDFLAGS replace what test/unit/explore is linked with"; exit 1; }
grep -e '-fPIE .*-c -o' "$work/shown" | grep -v -e '-fPIE -fPIC' &&
    { echo "FAILED: CFLAGS with -fPIE make objects that no shared library can have"; exit 1; }

# What gcc alone knows, or can do without, clang does not get.
for way in SANITIZE=address 'CFLAGS=-O2 -flto=thin'; do
    make -n lib CC=clang "$way" >"$work/shown"
    ! grep -E 'flinker-output|fsanitize.*z,defs' "$work/shown" ||
        { echo "FAILED: clang would be given this, with $way"; exit 1; }
done

# An archive that was unpacked in another repository, which does not know it, is one to make
# archives of all the same.
if command -v git >/dev/null; then
    git -C "$work" init -q
    git -C "$work" -c user.name=me -c user.email=me@here commit -q --allow-empty -m other
    make -s dist
    tar -tzf build/libpami-*.tar.gz | grep '/Makefile$' >"$work/list" ||
        { echo "FAILED: the archive of an archive has no Makefile"; exit 1; }
fi

# What is only shown does not run.
if make -n run-check TEST=test/none.sh 2>&1 | grep '^Result:'; then
    echo "FAILED: make -n runs tests"
    exit 1
fi
