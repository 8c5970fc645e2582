#!/bin/bash
# Without a launcher, or under one that gives no connection, a program runs as one task and says so
# when asked; with a broken one it fails with a clear text.
# Run: timeout=60
# shellcheck disable=SC2034,SC2154 # variables of "functions"

. "$(dirname "$0")/functions"

job=$build/test/unit/bootstrap_job
bare=(env -u PMI_FD -u PMI_PORT -u PMI_RANK -u PMI_SIZE -u PMIX_NAMESPACE -u SLURM_PROCID)
run 0 "${bare[@]}" "$job"
is err ''
run 0 "${bare[@]}" PAMI_LOG=info "$job" --print
has out 'task 0/1 node 0/1 local 0'
has err 'no launcher in the environment'
for launcher in OMPI_COMM_WORLD_SIZE=4:mpirun SLURM_PROCID=1:srun; do
    run 0 "${bare[@]}" PAMI_LOG=info "${launcher%:*}" "$job" --print
    has out 'task 0/1 node 0/1 local 0'
    has err "${launcher##*:}"
done
broken() {
    run 1 "${bare[@]}" "${@:2}" "$job"
    has err "$1"
}
broken 'not open' PMI_FD=77 PMI_RANK=0 PMI_SIZE=1
broken 'not a socket' PMI_FD=1 PMI_RANK=0 PMI_SIZE=1
broken 'PMI_RANK is not' PMI_FD=1 PMI_SIZE=1
broken "PMI_RANK='x'" PMI_FD=1 PMI_RANK=x PMI_SIZE=1
broken 'PMI_RANK is 3, but PMI_SIZE is 2' PMI_FD=1 PMI_RANK=3 PMI_SIZE=2
broken 'neither PMI_FD is set nor PMI_PORT' PAMI_BOOTSTRAP=pmi1
broken 'PMI_ID is not, as in what a task executes' PMI_PORT=127.0.0.1:9
broken 'not a host and a port' PMI_PORT=9 PMI_ID=0
broken 'no connection to the launcher at' PMI_PORT=127.0.0.1:0 PMI_ID=0
run 0 "${bare[@]}" PMI_FD=77 PAMI_BOOTSTRAP=single "$job"

# Who starts another program of the job by hand is told what to do.
run 1 "$pamirun" bash -c 'eval "exec $PMI_FD>&-"; exec "$0"' "$job"
has err 'PAMI_BOOTSTRAP=single'
run 0 "$pamirun" -n 2 bash -c 'eval "exec $PMI_FD>&-"; PAMI_BOOTSTRAP=single exec "$0" --print' "$job"

# A launcher that stops answering: the time limit.
start=$(now)
run 1 "$pamirun" -n 2 sh -c '[ $PMI_RANK = 1 ] && exec sleep 10; PAMI_BOOTSTRAP_TIMEOUT=0.3 exec "$0"' "$job"
has err 'PAMI_BOOTSTRAP_TIMEOUT'
within 4000 "$start"
finish
