#!/bin/bash
# bench/over_hosts: a program whose two ends are in network namespaces finds its other end.
# Run: timeout=60
set -u

[ -z "${SANITIZE-}" ] || { echo 'SKIP: nothing of the library runs here'; exit 77; }
[ -x "$BUILD/bench/limit_ofi" ] || { echo 'SKIP: this build has no libfabric'; exit 77; }
output=$(timeout 50 "$(dirname "$0")/../../bench/over_hosts" 2 apart 2 \
    "$BUILD/bench/limit_ofi" latency --max 8 --iterations 100)
status=$?
echo "$output"
[ $status != 0 ] || grep -q '^latency_ofi,8,us,[0-9.]*$' <<<"$output" || exit 1
exit $status
