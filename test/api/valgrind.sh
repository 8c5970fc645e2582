#!/bin/bash
# Under valgrind's memcheck a job over shared memory starts, works and ends, also one that destroys
# nothing; nothing is found. Nor over libfabric, where all that is sent was written before.
# Run: timeout=120
set -u

if [ -n "${SANITIZE-}" ] || ! command -v valgrind >/dev/null; then
    echo 'SKIP: no valgrind, or a sanitizer, which it does not go with'
    exit 77
fi
for how in mem 'leave heap'; do
    out=$("${PAMIRUN:-build/bin/pamirun}" -n 2 --timeout 60 valgrind -q --error-exitcode=9 \
        "${BUILD:-build}"/test/api/$how 2>&1) || { echo "FAILED: $how: status $?: $out"; exit 1; }
done
[ -e "${BUILD:-build}/lib/pami-ofi.so" ] || exit 0
export PAMI_NETWORK=ofi PAMI_OFI_INTERFACE=lo PAMI_PEER_TIMEOUT=60
out=$("${PAMIRUN:-build/bin/pamirun}" -n 2 --nodes 2 --timeout 60 valgrind -q --error-exitcode=9 \
    "${BUILD:-build}"/examples/hello 2>&1) || { echo "FAILED: over libfabric: status $?: $out"; exit 1; }
