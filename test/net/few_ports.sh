#!/bin/bash
# A host has far fewer ports than its tasks have connections with others: connections to different
# tasks share them. Here it has hardly more than those that the tasks listen at.
# Run: timeout=120

. "$(dirname "$0")/functions"

need_module
range=/proc/sys/net/ipv4/ip_local_port_range
prepare="ip link set lo up && echo 30000 30044 >$range"
need_alone sh -c "$prepare"
limit=60
export PAMI_NETWORK=ofi
# shellcheck disable=SC2086
run 0 $alone sh -c "$prepare && exec \"\$@\"" - "$pamirun" -n 6 --nodes 6 \
    "$build/test/api/coll_calls"
finish
