#!/bin/bash
# Slurm's srun over two hosts, by a Slurm that this test starts: nodes by number with PMIx, by its
# map with PMI-2; cards and fences across.
# Run: timeout=300
# shellcheck disable=SC2034,SC2154 # variables of "functions"

. "$(dirname "$0")/functions"
. "$(dirname "$0")/slurm_functions"
. "$(dirname "$0")/hosts_functions"

ends() {
    slurm_end
    hosts_end
}
trap ends EXIT

at() {
    local host=$1
    shift
    PRIVATE=$slurm/private exec "$scratch/agent" "$host" "$@"
}

in_slurm() {
    "$scratch/agent" nodeA "$@"
}

slurm_start nodeA=10.77.0.1 nodeB=10.77.0.2
over=("$scratch/agent" nodeA "${srun[@]}" -N 2 --ntasks-per-node=2 -n 4)
job=$(realpath "$build/test/unit/bootstrap_job")
run 0 "${over[@]}" true

places() {
    [ "$(sort "$scratch/out" | tr '\n' ';')" = "$1" ] || complain "places are not $1"
}

for kind in pmix pmi2; do
    "${srun[@]}" --mpi=list 2>&1 | grep -qw $kind || { echo "no --mpi=$kind here"; continue; }
    PAMI_LOG=info run 0 "${over[@]}" --mpi=$kind -m block "$job" --print
    lacks err 'comparing hosts' # which asks about each task
    places 'task 0/4 node 0/2 local 0 1;task 1/4 node 0/2 local 0 1;task 2/4 node 1/2 local 2 3;task 3/4 node 1/2 local 2 3;'
    run 0 "${over[@]}" --mpi=$kind -m cyclic "$job" --print
    places 'task 0/4 node 0/2 local 0 2;task 1/4 node 1/2 local 1 3;task 2/4 node 0/2 local 0 2;task 3/4 node 1/2 local 1 3;'
    run 0 "${over[@]}" --mpi=$kind "$job"
    is out ''
    run 0 "${over[@]}" --mpi=$kind "$job" --fences 5
    messages "${over[@]}" --mpi=$kind
done
finish
