#!/bin/bash
# How long a job takes from the start of pamirun until its first fence is done, and as a whole.
# Asserts only what a much slower machine would reach too.
# Run: timeout=60
# shellcheck disable=SC2034,SC2154 # variables of "functions"

. "$(dirname "$0")/functions"

job=$build/test/unit/bootstrap_job
for tasks in 1 2 16 64 256; do
    best=
    for round in 1 2 3 4 5; do
        start=$(date +%s%N)
        run 0 "$pamirun" -n $tasks "$job" --stamp
        [ "$(wc -l <"$scratch/out")" = $tasks ] || complain 'tasks are missing'
        took=$((($(sort -n "$scratch/out" | tail -n 1) - start) / 1000))
        [ -n "$best" ] && [ $best -lt $took ] || best=$took
    done
    echo "# $tasks tasks: first fence after $best us (best of 5)"
    [ $best -lt $(((100 + tasks * 10) * 1000 * factor)) ] || complain "too slow: $best us"
done
for tasks in 2 16; do
    run 0 "$pamirun" -n $tasks "$job" --fences 200
    sed 's/^/# /' "$scratch/out"
done
finish
