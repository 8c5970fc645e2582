#!/bin/bash
# Two hosts that never reach one another, as the link between them is cut before their tasks greet:
# the tasks count as dead after the peer timeout, however often they have knocked. And two with no way
# to one another while they greet, or while the provider connects, but soon after it: nothing fails.
#
# Run: timeout=120
. "$(dirname "$0")/functions"

hosts 2
# ways add|del: there is no way, or there is one
ways() {
    ip -n "$net-1" route "$1" unreachable 10.77.0.2
    ip -n "$net-2" route "$1" unreachable 10.77.0.1
}

what='no way to the other host'
ways add
start_apart pamirun 2 "$build/test/net/stream" --end 3 --limit 30
all 'cannot be connected to: No route to host; is tried again'
ways del
all '[1-9][0-9]* messages came, 0 operations failed'
wait $job || complain 'the job fails'

what='no way for the provider'
start_apart pamirun 2 "$build/test/net/stream" --rest "$scratch/go" --end 3 --limit 30
all rests
ways add
touch "$scratch/go"
sleep 1
ways del
all '[1-9][0-9]* messages came, 0 operations failed'
wait $job || complain 'the job fails'

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
