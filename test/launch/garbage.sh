#!/bin/bash
# A task that sends nonsense breaks its own job at worst: pamirun neither crashes nor hangs, and
# another job beside it goes on.
# Run: timeout=120
# shellcheck disable=SC2034,SC2154 # variables of "functions"

. "$(dirname "$0")/functions"

raw=$build/test/launch/pmi_raw
"$pamirun" -n 2 sleep 1000 2>"$scratch/beside.err" &
beside=$!
start=$(now)
for seed in $(seq 1 60); do
    what="pmi_raw --fuzz $seed"
    timeout -k 1 $((10 * factor)) "$pamirun" -n 3 "$raw" --fuzz "$seed" >"$scratch/out" 2>"$scratch/err"
    status=$?
    [ $status = 0 ] || [ $status = 1 ] || complain "status $status"
    [ $status = 0 ] || grep -q -e "does not keep to the PMI protocol" -e "has aborted the job" "$scratch/err" ||
        complain "no reason given"
done
echo "# 60 jobs in $(($(now) - start)) ms"
kill -0 $beside 2>/dev/null || complain 'the other job has ended'
kill -TERM $beside
wait $beside
[ $? = 143 ] || complain 'the other job ended in another way'
finish
