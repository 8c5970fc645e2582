#!/bin/bash
# Calls of libfabric fail, once, for some time or for good, and so do completions: by a layer before
# libfabric (test/lib/failing_fabric.c). What can be tried again or done in another way is, and else
# everybody hears of it; nobody waits for ever.
#
# Run: timeout=900
. "$(dirname "$0")/functions"

need_module
failing=$build/test/lib/failing_fabric.so
[ -e "$failing" ] || skip 'this build has no test/lib/failing_fabric.so'
limit=60
export PAMI_NETWORK=ofi PAMI_PEER_TIMEOUT=1 FAILING_FABRIC
# Of the layer, which is not sanitized.
export ASAN_OPTIONS=${ASAN_OPTIONS-}:verify_asan_link_order=0

# fails WELL PLAN...: so many of two tasks have all that they wanted
fails() {
    local well=$1 count
    shift
    for FAILING_FABRIC; do
        run 0 "$pamirun" -n 2 --nodes 2 env LD_PRELOAD="$failing" "$build/test/net/failing"
        what="FAILING_FABRIC=$FAILING_FABRIC"
        count=$(grep -c '^task .*: all is well' "$scratch/out")
        [ "$count" = "$well" ] || complain "$count tasks have all"
    done
}

# 5: EIO, 11: EAGAIN, 12: ENOMEM, 22: EINVAL, 24: EMFILE, 61: ENODATA, 107: ENOTCONN, 125: ECANCELED
fails 2 getinfo:1:1:61:1 cq:1:1:22:1 mr:1:0:12:1 insert:1:1:12:1 send:20:40:11:1 \
    inject:3:50:11:1 recv:140:20:11:1 read:1:0:11:1 read:3:1:5:1 readdone:3:0:125:1 cqread:50:1:5:1
# Some of what is injected or comes is a report of what has been read, which may be lost, so those
# fail more than once.
fails 0 insert:1:1:22:1 send:7:1:5:1 inject:5:20:5:1 sent:30:1:107:1 came:40:5:5:1 recv:100:0:11:1
# The task has no context then: that is all that it is told.
fails 1 domain:1:1:12:1 av:1:1:12:1 endpoint:1:1:24:1 enable:1:1:12:1 getname:1:1:22:1

# Without endpoints for reads and writes packets have to do, which a context leaves nothing behind of.
FAILING_FABRIC=endpoint:4:0:24
run 0 "$pamirun" -n 2 --nodes 2 env LD_PRELOAD="$failing" "$build/test/net/unserved"
grep -q 'fi_endpoint: Too many open files' "$scratch/err" || complain 'all endpoints are there'

# Data that cannot be read once is pushed; later messages are read again: of two in each round.
export FAILING_FABRIC_LOG=$scratch/calls
fails 2 read:1:1:5
[ "$(grep -c 'readdone=[2-9][0-9] .*failed=1$' "$FAILING_FABRIC_LOG")" = 2 ] || {
    complain 'does not read again'
    cat "$FAILING_FABRIC_LOG"
}
finish
