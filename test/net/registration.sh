#!/bin/bash
# Providers that want memory to be registered, of which none runs here: what verbs, efa, cxi and
# others ask for is insisted on by a layer before libfabric (test/lib/strict_fabric.c), which aborts
# who does it wrong. Messages, and transfers between regions, also when no more can be registered.
#
# Run: timeout=400
. "$(dirname "$0")/functions"

use_layer strict_fabric

# strict WORDS PROGRAM...: two tasks over such a provider; the sums of what it saw are in regions,
# refused, remote
strict() {
    layered "$@"
    regions=$(seen registrations) refused=$(seen refused) remote=$(seen remote)
}

for words in local,virtual,allocated,key endpoint,allocated,key virtual,allocated local \
    local,endpoint,short; do
    strict $words "$build/test/net/remote"
    [ "$regions" -ge 100 ] && [ "$remote" -ge 200 ] ||
        complain "$regions registrations, $remote remote accesses"
    # But for the whole space, which is tried first where that could be.
    [ "$refused" = 0 ] || [ $words = virtual,allocated ] || complain "$refused registrations refused"
done
for words in local,virtual,allocated,key endpoint,allocated,key; do
    strict $words "$build/test/net/stream" --end 1 --limit 60
    grep -q ' messages came, 0 operations failed' "$scratch/out" || complain 'not all arrived'
    # Large messages are fetched, each out of a registration of its own.
    [ "$regions" -ge 8 ] && [ "$remote" -ge 4 ] ||
        complain "$regions registrations, $remote remote accesses"
done
# The data of all sizes is right, also where some of it is refused.
for words in local,virtual,allocated,key endpoint,allocated,key,count=4; do
    strict $words "$build/test/api/send_sizes" large
    [ "$remote" -gt 0 ] || complain 'nothing was fetched'
done
# Nor is that a cancellation point.
strict local,virtual,allocated,key "$build/test/api/cancel"
[ "$remote" -gt 0 ] || complain 'nothing was fetched'
# Buffers for packets and a few regions can be registered; the rest goes another way.
strict local,virtual,allocated,key,count=12 "$build/test/net/remote"
[ "$refused" -gt 0 ] && [ "$remote" -gt 0 ] || complain "$refused refused, $remote remote accesses"
finish
