#!/bin/bash
# Slurm's srun with PMIx and with PMI-2, by a Slurm that this test starts: who is who, cards, fences,
# how jobs end.
# Run: timeout=180
# shellcheck disable=SC2034,SC2154 # variables of "functions"

. "$(dirname "$0")/functions"
. "$(dirname "$0")/slurm_functions"

slurm_start "$(hostname -s)=127.0.0.1"
job=$(realpath "$build/test/unit/bootstrap_job")
order=$(realpath "$build/test/api/order")
for kind in pmix pmi2; do
    "${srun[@]}" --mpi=list 2>&1 | grep -qw $kind || { echo "no --mpi=$kind here"; continue; }
    for tasks in 1 3; do
        run 0 "${srun[@]}" --mpi=$kind -n $tasks "$job"
        is out ''
        run 0 "${srun[@]}" --mpi=$kind -n $tasks "$job" --print
        [ "$(grep -c "^task ./$tasks node 0/1 local 0" "$scratch/out")" = $tasks ] ||
            complain places
    done
    run 0 "${srun[@]}" --mpi=$kind -n 3 "$job" --fences 10
    has out '10 fences of 3 tasks'
    run 0 "${srun[@]}" --mpi=$kind -n 3 "$order"
    run 0 "${srun[@]}" --mpi=$kind -n 1 "$pamirun" -n 3 "$job" --print
    has out 'task 2/3 '

    # Ends. Slurm's own idea of a status: what matters is that there is an end, and which kind.
    start=$(now)
    for end in '--die 9' '--abort 7'; do
        what="$kind $end"
        # shellcheck disable=SC2086
        "${srun[@]}" --mpi=$kind -K1 -n 3 "$job" $end >"$scratch/out" 2>"$scratch/err"
        status=$?
        [ $status != 0 ] && [ $status != 124 ] || complain "status $status"
    done
    within 20000 "$start"
done
# With PMIx a death ends the step whatever -K says.
if "${srun[@]}" --mpi=list 2>&1 | grep -qw pmix; then
    what='pmix -K0'
    start=$(now)
    JOB_GOES_ON=1 PAMI_BOOTSTRAP_TIMEOUT=20 "${srun[@]}" --mpi=pmix -K0 -n 3 "$job" --die 9 \
        >"$scratch/out" 2>"$scratch/err"
    status=$?
    [ $status != 0 ] && [ $status != 124 ] || complain "status $status"
    within 15000 "$start"
fi
# With PMI-2 and -K0 survivors go on; nobody tells them.
what='pmi2 -K0'
start=$(now)
JOB_GOES_ON=1 PAMI_BOOTSTRAP_TIMEOUT=2 "${srun[@]}" --mpi=pmi2 -K0 -n 3 "$job" --die 9 \
    >"$scratch/out" 2>"$scratch/err"
[ $? != 124 ] || complain 'does not end'
[ "$(grep -c survives "$scratch/out")" = 2 ] || complain 'not two survivors'
within 15000 "$start"
finish
