#!/bin/bash
# Of two hosts only the network of the provider is cut: the processes live, their kernels answer, and
# the receptions talk on. Everything that is under way ends with an error on both sides all the same,
# within about the peer timeout, and one of them says why.
#
# Run: timeout=180
. "$(dirname "$0")/functions"

hosts 2 --cut "$scratch/keep"
export PAMI_PEER_TIMEOUT=4 PAMI_LOG=info
what='a silent network'
start_apart pamirun 2 "$build/test/net/stream" --limit 40

all streaming
sed -n 's|.*find this task at .*/\([0-9]*\)$|\1|p' "$scratch"/task.? >"$scratch/ports"
[ "$(wc -l <"$scratch/ports")" = 2 ] || complain 'not two receptions'
sleep 0.5
lost mv "$scratch/ports" "$scratch/keep"
grep -q 'lives, but for' "$scratch"/task.? || complain 'nobody says why'
finish
