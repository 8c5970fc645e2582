#!/bin/bash
# A member or a leader of a node is killed at any instruction of collectives in shared memory and
# over nodes, and the job goes on.
#
# Run: timeout=120

. "$(dirname "$0")/functions"
dying=$build/test/fault/coll_nodes_dying

seed=0
for rows in Hierarchical PipelinedHierarchical MultiLeader Auto; do
    for victim in first middle last; do
        for shape in '3 1' '4 2' '5 3' '8 2'; do
            seed=$((seed + 1))
            tasks=${shape% *}
            job 137 $((tasks - 1)) -n "$tasks" --nodes "${shape#* }" --keep-going -- \
                --rows $rows --victim $victim --seed $seed
        done
    done
done

finish
