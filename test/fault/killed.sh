#!/bin/bash
# A task dies and takes the job with it: the launcher ends the others at once, says which task it was
# and answers with its status. A task that ends with status 0 does not.
#
# Run: timeout=120

. "$(dirname "$0")/functions"

for way in $(ways 0 $((RETURNS | EVERYBODY | START | ENDLESS))); do
    status=$(status_of "$way")
    for seed in 1 2; do
        if [ "$status" = 0 ]; then
            [ $seed = 1 ] && job 0 2 -n 3 -- --way "$way" --seed $seed
            continue
        fi
        start=$(now)
        job "$status" 0 -n 4 -- --way "$way" --seed $seed
        grep -q '^pamirun: task 3 ' "$scratch/err" || complain 'the launcher does not name the task'
        [ $(($(now) - start)) -lt $((10000 * factor)) ] || complain 'the job took long to end'
    done
done

finish
