#!/bin/bash
# Calls of libfabric fail, once, for some time or for good, and so do completions: by a layer before
# libfabric (test/lib/failing_fabric.c). What can be tried again or done in another way is, and else
# everybody hears of it; nobody waits for ever.
#
# Run: timeout=900
. "$(dirname "$0")/functions"

use_layer failing_fabric
export PAMI_PEER_TIMEOUT=1

# fails WELL PLAN...: so many of two tasks have all that they wanted
fails() {
    local well=$1 plan count
    shift
    for plan; do
        layered "$plan" "$build/test/net/failing"
        count=$(grep -c '^task .*: all is well' "$scratch/out")
        [ "$count" = "$well" ] || complain "$count tasks have all"
    done
}

# 5: EIO, 11: EAGAIN, 12: ENOMEM, 22: EINVAL, 24: EMFILE, 61: ENODATA, 92: ENOPROTOOPT,
# 107: ENOTCONN, 125: ECANCELED
fails 2 getinfo:1:1:61:1 cq:1:1:22:1 mr:1:0:12:1 insert:1:1:12:1 send:20:40:11:1 \
    inject:3:50:11:1 recv:140:20:11:1 read:1:0:11:1 read:3:1:5:1 readdone:3:0:125:1 cqread:50:1:5:1
# Some of what is injected or comes is a report of what has been read, which may be lost, so those
# fail more than once.
fails 0 insert:1:1:22:1 send:7:1:5:1 inject:5:20:5:1 sent:30:1:107:1 came:40:5:5:1 recv:100:0:11:1
# The task has no context then: that is all that it is told.
fails 1 domain:1:1:12:1 av:1:1:12:1 endpoint:1:1:24:1 enable:1:1:12:1 getname:1:1:22:1
# A provider that does not want to hear how much room a message takes has a buffer for each.
! "$build/bin/pami_info" --devices | grep -q '^ *shm  *shm ' ||
    PAMI_OFI_PROVIDER=shm fails 2 setopt:1:0:92

# Without endpoints for reads and writes packets have to do, which a context leaves nothing behind of.
layered endpoint:4:0:24 "$build/test/net/unserved"
grep -q 'fi_endpoint: Too many open files' "$scratch/err" || complain 'all endpoints are there'

# Data that cannot be read once is pushed; later messages are read again: of two in each round.
fails 2 read:1:1:5
[ "$(grep -c 'readdone=[2-9][0-9] .*failed=1$' "$scratch/seen")" = 2 ] || {
    complain 'does not read again'
    cat "$scratch/seen"
}
finish
