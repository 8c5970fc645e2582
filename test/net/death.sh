#!/bin/bash
# A task of another node is killed in the middle of traffic: the survivor's operations end with
# errors, soon, and so do those that it starts afterwards.
#
# Run: timeout=120
. "$(dirname "$0")/functions"

need_module
export PAMI_NETWORK=ofi
for try in 1 2 3; do
    run 137 "$pamirun" -n 2 --nodes 2 --keep-going "$build/test/net/stream" --die 0.$try --limit 20
    grep -q '^task 0: gone after' "$scratch/out" || complain 'the survivor does not notice'
done
finish
