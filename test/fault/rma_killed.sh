#!/bin/bash
# A task dies in the middle of puts, gets, atomic operations and fences, and the job goes on.
#
# Run: args="kill" timeout=120
# Run: args="exit stuck" timeout=120

. "$(dirname "$0")/functions"
dying=$build/test/fault/rma_dying

for way in "$@"; do
    status=137
    [ "$way" != exit ] || status=0
    for only in put get typed region rmw fence mixed; do
        for seed in 1 2 3; do
            tasks=$((3 + seed % 2))
            job $status $((tasks - 1)) -n $tasks --keep-going -- \
                --way "$way" --only $only --seed $seed
        done
    done
done
for only in put rmw mixed; do
    job 137 2 -n 3 --keep-going -- --way kill --only $only --memory heap --seed 4
    job 137 2 -n 3 --keep-going -- --way stuck --only $only --memory heap --seed 5
done
for only in put get mixed; do
    PAMI_SHM_SINGLE_COPY=off job 137 2 -n 3 --keep-going -- --way kill --only $only --seed 7
    PAMI_SHM_RING_SLOTS=8 PAMI_SHM_CHUNKS=2 \
        job 137 2 -n 3 --keep-going -- --way kill --only $only --seed 8
    job 137 3 -n 4 --nodes 2 --keep-going -- --way kill --only $only --seed 9
done

finish
