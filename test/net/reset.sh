#!/bin/bash
# Connections of the provider are reset while both tasks and their receptions live (reset.c): on
# either side, with messages one way and both ways, that are acknowledged and that are not.
#
# Run: timeout=120
. "$(dirname "$0")/functions"

hosts 1
export PAMI_NETWORK=ofi PAMI_OFI_INTERFACE=10.77.0.1 PAMI_PEER_TIMEOUT=1

kinds=('--by 0' '--by 1' '--by 0 --forget' '--by 1 --forget --both'
    '--by 1 --forget --both --large')
for i in "${!kinds[@]}"; do
    on 1 "$pamirun -n 2 --nodes 2 $build/test/net/reset ${kinds[i]}" \
        >"$scratch/$i.out" 2>"$scratch/$i.err" </dev/null &
    jobs[i]=$!
done
for i in "${!kinds[@]}"; do
    what="reset ${kinds[i]}"
    wait "${jobs[i]}" || complain "status $?" "$scratch/$i."
done
! grep -qs 'cannot be reset' "$scratch"/*.out || skip 'connections cannot be reset here'
finish
