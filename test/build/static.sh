#!/bin/bash
# A program that is linked with nothing but static libraries: as it opens no library, it has no
# network, and is alone under a PMIx launcher. It says so, and does not crash.
# Run: timeout=120
# shellcheck disable=SC2086 # a compiler may have arguments
set -eu

if [ -n "${SANITIZE-}" ]; then
    echo "SKIP: links without the sanitizer's run-time"
    exit 77
fi

top=$(cd "$(dirname "$0")/../.." && pwd)
BUILD=${BUILD:-$top/build}
CC=${CC:-gcc}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail()
{
    echo "FAILED: $*"
    exit 1
}

# Debian's libhwloc.a calls libudev, of which there is no static library, for what devices are
# called. It can do without.
for name in new unref device_new_from_subsystem_sysname device_get_property_value device_unref; do
    echo "void *udev_$name(void); void *udev_$name(void) { return 0; }"
done >"$work/udev.c"
echo '#include <hwloc.h>
int main(void) { hwloc_topology_t t; return hwloc_topology_init(&t); }' >"$work/hwloc.c"

for way in -static -static-pie; do
    if ! $CC $way -fPIE "$work/hwloc.c" "$work/udev.c" -lhwloc -lm -o "$work/hwloc" 2>"$work/log"; then
        echo "SKIP: hwloc alone does not link with $way: $(tail -n 1 "$work/log")"
        exit 77
    fi
    hello=$work/hello$way
    $CC $way -fPIE -I"$top/include" "$top/examples/hello.c" "$work/udev.c" "$BUILD/lib/libpami.a" \
        -lhwloc -pthread -lm -ldl -lrt -o "$hello" 2>"$work/log" ||
        fail "$way: $(cat "$work/log")"

    "$PAMIRUN" -n 4 --nodes 2 --timeout 20 "$hello" >"$work/output" || fail "$way: status $?"
    [ "$(grep -c 'says: hello' "$work/output")" = 4 ] || fail "$way: $(cat "$work/output")"

    for directory in "$BUILD/lib" ''; do
        status=0
        PAMI_NETWORK=ofi PAMI_OFI_INTERFACE=lo PAMI_MODULE_DIR=$directory \
            "$PAMIRUN" -n 2 --nodes 2 --timeout 20 "$hello" >"$work/output" 2>&1 || status=$?
        [ $status = 1 ] || fail "$way, network: status $status: $(cat "$work/output")"
        grep -q 'cannot be opened: a program that is linked statically' "$work/output" ||
            fail "$way, network: $(cat "$work/output")"
    done

    # Whoever has started it.
    OMPI_COMM_WORLD_SIZE=2 PMIX_NAMESPACE=nobody PMIX_RANK=0 "$hello" >"$work/output" 2>&1 ||
        fail "$way, PMIx: status $?: $(cat "$work/output")"
    grep -q 'libpmix cannot be opened: a program that is linked statically' "$work/output" ||
        fail "$way, PMIx: $(cat "$work/output")"
done
