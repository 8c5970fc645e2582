#!/bin/bash
# Two hosts whose network delays, re-orders and loses frames: everything arrives, nothing fails, and
# nobody is taken for dead.
#
# Run: timeout=300
. "$(dirname "$0")/functions"

hosts 2 --delay 300 --jitter 1000 --loss 10
limit=100
# A wire that gets no processor loses much at once, and TCP then waits for seconds.
export PAMI_PEER_TIMEOUT=20
run_cases 'order|4|||2' 'send_events|4|||' 'put|2|||'
run_job 0 pamirun 2 "$build/test/net/stream" --end 2 --limit 60
grep -q ' messages came, 0 operations failed' "$scratch/out" || complain 'operations failed'
finish
