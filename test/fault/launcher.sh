#!/bin/bash
# The launcher itself is killed, in the middle of traffic or of the start: its tasks die with it.
#
# Run: timeout=60

. "$(dirname "$0")/functions"

for delay in 0 0.003 0.006 0.01 0.015 0.02 0.03 0.05 0.1 0.2 0.3; do
    jobs=$((jobs + 1))
    what="pamirun killed after $delay s"
    DYING_JOB=$$.$jobs "$pamirun" -n 4 "$dying" --way endless --seed $jobs \
        >"$scratch/out" 2>"$scratch/err" </dev/null &
    pid=$!
    sleep $delay
    kill -KILL $pid
    wait $pid 2>/dev/null
    tries=0
    # Of a process that ends its environment goes before its sockets.
    while [ -n "$(marked $$.$jobs)$(sockets_of $pid)" ] && [ $tries -lt $((100 * factor)) ]; do
        sleep 0.02
        tries=$((tries + 1))
    done
    nothing_left $pid $$.$jobs
done

finish
