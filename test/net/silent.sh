#!/bin/bash
# Of two hosts only the network of the provider is cut: the processes live, their kernels answer, and
# the receptions talk on. Everything that is under way ends with an error on both sides all the same,
# within about the peer timeout, and one of them says why.
#
# Run: timeout=180
. "$(dirname "$0")/functions"

hosts 2 --cut "$scratch/keep"
export PAMI_PEER_TIMEOUT=2 PAMI_LOG=info
what='a silent network'
start_apart pamirun 2 "$build/test/net/stream" --limit 40

all streaming
sed -n 's|.*find this task at .*/\([0-9]*\)$|\1|p' "$scratch"/task.? >"$scratch/ports"
[ "$(wc -l <"$scratch/ports")" = 2 ] || complain 'not two receptions'
sleep 0.5
start=$(now)
mv "$scratch/ports" "$scratch/keep"
all 'gone after\|nothing for'
passed=$(($(now) - start))
cat "$scratch"/task.?
for i in 0 1; do
    grep -q "^task $i: gone after" "$scratch/task.$i" || complain "task $i does not notice"
    grep -q 'do not end' "$scratch/task.$i" && complain "task $i: later operations do not end"
done
grep -q 'lives, but for' "$scratch"/task.? || complain 'nobody says why'
[ $passed -lt $((15000 * factor)) ] || complain "took $passed ms"
kill $job 2>/dev/null
wait $job 2>/dev/null
finish
