#!/bin/bash
# The link between two hosts is cut in the middle of traffic: everything that is under way ends with
# an error on both sides, within about the peer timeout.
#
# Run: timeout=180
. "$(dirname "$0")/functions"

hosts 2
export PAMI_PEER_TIMEOUT=3
what='a cut link'
start_apart pamirun 2 "$build/test/net/stream" --limit 20
all streaming
sleep 0.5
start=$(now)
ip -n "$net-sw" link set port2 down
all 'gone after\|nothing for'
passed=$(($(now) - start))
cat "$scratch"/task.?
for i in 0 1; do
    grep -q "^task $i: gone after" "$scratch/task.$i" || complain "task $i does not notice"
    grep -q 'do not end' "$scratch/task.$i" && complain "task $i: later operations do not end"
done
[ $passed -lt $((15000 * factor)) ] || complain "took $passed ms"
ip -n "$net-sw" link set port2 up
kill $job 2>/dev/null
wait $job 2>/dev/null
finish
