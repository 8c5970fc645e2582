#!/bin/bash
# Slurm's srun --mpi=pmi2 starts programs that use our connection, where Slurm runs.
# Run: timeout=120
# shellcheck disable=SC2034,SC2154 # variables of "functions"

. "$(dirname "$0")/functions"

srun=$(command -v srun) || { echo 'skip: no srun'; exit 77; }
timeout 10 "$srun" --immediate=5 --mpi=pmi2 -n 2 true >/dev/null 2>&1 ||
    { echo 'skip: srun --mpi=pmi2 cannot start two tasks here'; exit 77; }
job=$build/test/unit/bootstrap_job
for tasks in 1 2; do
    run 0 "$srun" --mpi=pmi2 -n $tasks "$job"
    run 0 "$srun" --mpi=pmi2 -n $tasks "$job" --print
    [ "$(grep -c "^task ./$tasks node 0/1" "$scratch/out")" = $tasks ] || complain places
done
finish
