#!/bin/bash
# A task that has asked for a context which does not exist yet is killed; the context that comes
# hears of it.
#
# Run: timeout=100
. "$(dirname "$0")/functions"

need_module
limit=60
export PAMI_NETWORK=ofi
run 137 "$pamirun" -n 2 --nodes 2 --keep-going "$build/test/net/asked_early" dies
grep -q 'the death was told' "$scratch/out" || complain 'nobody was told'
finish
