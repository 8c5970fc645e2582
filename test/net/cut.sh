#!/bin/bash
# The link between two hosts is cut in the middle of traffic: everything that is under way ends with
# an error on both sides, within about the peer timeout; also reads for which the provider had no
# room yet, and would connect anew.
#
# Run: timeout=240
. "$(dirname "$0")/functions"

hosts 2
export PAMI_PEER_TIMEOUT=3
what='a cut link'
start_apart pamirun 2 "$build/test/net/stream" --limit 20
all streaming
sleep 0.5
lost ip -n "$net-sw" link set port2 down
ip -n "$net-sw" link set port2 up

export PAMI_OFI_PROVIDER='tcp;ofi_rxm'
what='a cut link with many reads'
start_apart pamirun 2 "$build/test/net/cut_reads"
tasks=1
all streaming
ip -n "$net-sw" link set port2 down
all 'gone after'
kill $job
wait $job 2>/dev/null
after=$(sed -n 's/.*gone after \([0-9]*\)\..*/\1/p' "$scratch/task.0")
[ "${after:-99}" -lt $((7 * factor)) ] || complain "the reads end after $after s"
finish
