#!/bin/bash
# A task is killed while others do atomic operations on its memory; see atomics.c.
#
# Run: timeout=60

pamirun=${PAMIRUN:-build/bin/pamirun}
program=${BUILD:-build}/test/fault/atomics
failures=0

for tasks in 2 3 5; do
    for options in "" PAMI_SHM_RING_SLOTS=8; do
        output=$(env $options "$pamirun" -n $tasks --keep-going "$program" 2>&1)
        status=$?
        done=$(grep -c '^done$' <<<"$output")
        if [ $status != 137 ] || [ "$done" != $((tasks - 1)) ]; then
            failures=$((failures + 1))
            echo "FAILED: $tasks tasks $options: status $status, $done got through"
            sed 's/^/  /' <<<"$output" | head -n 20
        fi
    done
done
[ $failures = 0 ]
