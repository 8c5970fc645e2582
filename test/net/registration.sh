#!/bin/bash
# Providers that want memory to be registered, of which none runs here: what verbs, efa, cxi and
# others ask for is insisted on by a layer before libfabric (test/lib/strict_fabric.c), which aborts
# who does it wrong. Messages, and transfers between regions, also when no more can be registered.
#
# Run: timeout=400
. "$(dirname "$0")/functions"

need_module
strict=$build/test/lib/strict_fabric.so
[ -e "$strict" ] || skip 'this build has no test/lib/strict_fabric.so'
limit=60
export PAMI_NETWORK=ofi STRICT_FABRIC STRICT_FABRIC_LOG=$scratch/seen
# Of the layer, which is not sanitized.
export ASAN_OPTIONS=${ASAN_OPTIONS-}:verify_asan_link_order=0

# strict WORDS PROGRAM...: under such a provider; the sums of what it saw are in regions, refused,
# remote
strict() {
    STRICT_FABRIC=$1
    shift
    rm -f "$scratch/seen"
    run 0 "$pamirun" -n 2 --nodes 2 env LD_PRELOAD="$strict" "$@"
    what="$STRICT_FABRIC: $*"
    touch "$scratch/seen"
    [ "$(wc -l <"$scratch/seen")" = 2 ] || complain 'the layer was not in use'
    regions=$(sum registrations) refused=$(sum refused) remote=$(sum remote)
}

sum() {
    sed -n "s/.*$1=\([0-9]*\).*/\1/p" "$scratch/seen" | awk '{ sum += $1 } END { print sum + 0 }'
}

# As verbs and efa, as cxi, and what nobody but the interface speaks of.
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
