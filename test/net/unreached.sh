#!/bin/bash
# Two hosts that never reach one another, as the link between them is cut before their tasks greet:
# the tasks count as dead after the peer timeout, however often they have knocked.
#
# Run: timeout=120
. "$(dirname "$0")/functions"

hosts 2
export PAMI_PEER_TIMEOUT=3
what='a link that was never there'
ip -n "$net-sw" link set port2 down
start_apart pamirun 2 "$build/test/net/stream" --limit 20
lost true
# It counts from 20 s after its start.
for i in 0 1; do
    after=$(sed -n 's/.*gone after -\([0-9]*\)\.[0-9]* s.*/\1/p' "$scratch/task.$i")
    after=$((19 - ${after:-0}))
    [ "$after" -ge 2 ] && [ "$after" -lt $((5 * factor)) ] || complain "task $i: after $after s"
done
finish
