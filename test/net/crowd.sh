#!/bin/bash
# A task dies before whose door another one of the job has waited for room: see crowd.c.
#
# Run: timeout=60
. "$(dirname "$0")/functions"

need_module
export PAMI_NETWORK=ofi PAMI_PEER_TIMEOUT=1
run 137 "$pamirun" -n 2 --nodes 2 --keep-going "$build/test/net/crowd" full dies
after=$(sed -n 's/^the death was noticed after \([0-9]*\)\..*/\1/p' "$scratch/out")
[ "${after:-99}" -lt $((2 * factor)) ] || complain 'not noticed in time'
finish
